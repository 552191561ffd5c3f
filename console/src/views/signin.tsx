// Signing in. The token goes to the server, which keeps it in a cookie that no script can read.
import { useState } from "preact/hooks";
import { message } from "../api/http";
import { Problem } from "../parts/basics";
import { server, signIn } from "../state/session";
import { t } from "../text";

export function SignIn({ isExpired }: { isExpired: boolean }) {
  const [problem, setProblem] = useState("");
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await signIn(token.trim());
      setToken("");
    } catch (error) {
      setProblem(message(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="signin">
      <div class="card">
        <h1>
          <img src="/console/icon.svg" width="36" height="36" alt="" /> Alcove
        </h1>
        {isExpired && <p class="lead">{t().signInAgain}</p>}
        {server.value.signIn === "command" ? (
          <>
            <p class="lead">{t().signInByCommand}</p>
            <pre class="sample">alcove console</pre>
          </>
        ) : (
          <form onSubmit={(event) => void submit(event)}>
            <p class="lead">{t().signInLead}</p>
            <label class="field">
              {t().token}
              <input
                type="password"
                name="token"
                autocomplete="off"
                spellcheck={false}
                value={token}
                onInput={(event) => setToken(event.currentTarget.value)}
              />
            </label>
            {problem && <Problem text={problem} />}
            <button type="submit" class="primary" disabled={isBusy || !token.trim()}>
              {t().signIn}
            </button>
            <p class="fine">
              {t().tokenHelp} <code>kubectl create token NAME</code>. {t().tokenKept}
            </p>
          </form>
        )}
      </div>
    </main>
  );
}
