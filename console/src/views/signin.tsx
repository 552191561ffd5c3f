// Signing in. The token goes to the server, which keeps it in a cookie that no script can read.
import { useEffect, useState } from "preact/hooks";
import { message } from "../api/http";
import { Problem } from "../parts/basics";
import { visible } from "../parts/show";
import { providersOf, server, signIn, signInAt, type Provider } from "../state/session";
import { t } from "../text";

/** A link to a tenant's sign-in names the tenant: /console/?tenant=acme. */
const NAMED = new URLSearchParams(location.search).get("tenant") ?? "";
const WAIT_MS = 300;

export function SignIn({ isExpired }: { isExpired: boolean }) {
  const [problem, setProblem] = useState("");
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [tenant, setTenant] = useState(NAMED);
  const [providers, setProviders] = useState<Provider[]>([]);
  useEffect(() => {
    let isOver = false;
    const ask = () =>
      providersOf(tenant.trim()).then(
        (found) => !isOver && setProviders(found),
        () => !isOver && setProviders([]),
      );
    // Not with every key that is pressed.
    const timer = setTimeout(() => void ask(), tenant === NAMED ? 0 : WAIT_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [tenant]);
  const trying = async (attempt: () => Promise<void>) => {
    setBusy(true);
    setProblem("");
    try {
      await attempt();
      setToken("");
    } catch (error) {
      setProblem(message(error));
    } finally {
      setBusy(false);
    }
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void trying(() => signIn(token.trim(), tenant.trim()));
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
          <form onSubmit={submit}>
            <label class="field">
              {t().signInTenant}
              <input
                name="tenant"
                autocomplete="organization"
                autocapitalize="none"
                spellcheck={false}
                value={tenant}
                onInput={(event) => setTenant(event.currentTarget.value)}
              />
            </label>
            {providers.map((each) => (
              <button
                key={each.name}
                type="button"
                disabled={isBusy}
                onClick={() => void trying(() => signInAt(tenant.trim(), each.name))}
              >
                {t().signInWith(visible(each.displayName))}
              </button>
            ))}
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
