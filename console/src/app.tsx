// The shell: navigation at the side, what is shown beside it.
import { useEffect } from "preact/hooks";
import { isStale } from "./api/feed";
import { signedOut } from "./api/http";
import { Problem, Toasts } from "./parts/basics";
import { visible } from "./parts/show";
import { CommandLine, commandOpen } from "./parts/command";
import { KeyHelp, keyHelpOpen } from "./parts/keys";
import { Navigation } from "./parts/navigation";
import { TopBar, menuOpen } from "./parts/topbar";
import { route } from "./state/route";
import { isRing0, user } from "./state/session";
import { namespace, refused, tenant } from "./state/tenant";
import { t } from "./text";
import { ApplyView } from "./views/apply";
import { FlowsView } from "./views/flows";
import { HealthView } from "./views/health";
import { KindView } from "./views/kind";
import { MapView } from "./views/map";
import { ObjectView } from "./views/object";
import { Overview } from "./views/overview";
import { SignIn } from "./views/signin";
import { TenantsView } from "./views/tenants";

export function App() {
  useEffect(() => {
    const close = () => (commandOpen.value = keyHelpOpen.value = menuOpen.value = false);
    document.addEventListener("keydown", onKey);
    window.addEventListener("hashchange", close);
    return () => {
      document.removeEventListener("keydown", onKey);
      window.removeEventListener("hashchange", close);
    };
  }, []);
  if (user.value === undefined) return <div class="starting" aria-busy="true" />;
  if (user.value === null || signedOut.value) {
    return (
      <>
        <SignIn isExpired={signedOut.value && user.value !== null} />
        <Toasts />
      </>
    );
  }
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById("content")?.focus())}>
        {t().skip}
      </a>
      <TopBar />
      <Navigation />
      <main id="content" tabIndex={-1}>
        {isStale.value && (
          <div class="banner" role="alert">
            {t().staleBanner}
          </div>
        )}
        <View />
      </main>
      {commandOpen.value && <CommandLine />}
      {keyHelpOpen.value && <KeyHelp />}
      <Toasts />
    </div>
  );
}

function Refused() {
  return (
    <section class="view">
      <header class="view-head">
        <h1>{visible(tenant.value)}</h1>
      </header>
      <Problem text={refused.value} />
    </section>
  );
}

function View() {
  const [first, , view = "", kind = "", space = "", name = ""] = route.value.parts;
  const at = tenant.value;
  if (!first) return isRing0() ? <TenantsView /> : <Overview key={at} tenant={at} />;
  if (first === "tenants" && isRing0()) return <TenantsView />;
  if (first === "health" && isRing0()) return <HealthView />;
  if (refused.value) return <Refused />;
  if (first !== "t") return <p class="empty">{t().notFound}</p>;
  switch (view) {
    case "":
      return <Overview key={at} tenant={at} />;
    case "k":
      return <KindView key={`${at}/${kind}/${namespace.value}`} tenant={at} kind={kind} />;
    case "o":
      return <ObjectView key={`${at}/${kind}/${space}/${name}`} tenant={at} kind={kind} namespace={space} name={name} />;
    case "map":
      return <MapView key={at} tenant={at} />;
    case "flows":
      return <FlowsView key={at} tenant={at} />;
    case "apply":
      return <ApplyView key={at} tenant={at} />;
    default:
      return <p class="empty">{t().notFound}</p>;
  }
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented) return;
  // The editor is in a shadow root, from which the event seems to come as a whole.
  const target = event.composedPath()[0] as HTMLElement;
  const isTyping = target.closest("input, textarea, select, [contenteditable]") !== null;
  if (event.key === "Escape" && isTyping) target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  switch (event.key) {
    case ":":
      commandOpen.value = true;
      break;
    case "?":
      keyHelpOpen.value = true;
      break;
    case "/":
      document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      break;
    case "Escape":
      history.back();
      break;
    default:
      return;
  }
  event.preventDefault();
}
