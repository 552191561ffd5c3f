// The bar at the top: which tenant, which namespace, who.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { json } from "../api/http";
import { ALL, SYSTEM, TENANTS, collection } from "../api/paths";
import type { KubeList } from "../api/types";
import { go, link, route, setQuery } from "../state/route";
import { isRing0, signOut, user } from "../state/session";
import { language, theme, THEMES, type Language } from "../state/settings";
import { namespace, namespaces, tenant } from "../state/tenant";
import { LANGUAGES, t } from "../text";
import { commandOpen } from "./command";
import { keyHelpOpen } from "./keys";
import { visible } from "./show";

export const menuOpen = signal(false);
const tenantNames = signal<string[]>([]);

export async function loadTenantNames(): Promise<void> {
  const list = await json<KubeList>("GET", collection(SYSTEM, TENANTS));
  tenantNames.value = list.items.map((each) => each.metadata.name).sort();
}

export function TopBar() {
  const owner = isRing0();
  useEffect(() => {
    if (owner) void loadTenantNames().catch(() => undefined);
  }, [owner, tenant.value]);
  return (
    <header class="topbar">
      <button type="button" class="plain menu-button" aria-label={t().menu} aria-expanded={menuOpen.value} onClick={() => (menuOpen.value = !menuOpen.value)}>
        ☰
      </button>
      <a class="brand" href="#/">
        <img src="/console/icon.svg" width="22" height="22" alt="" />
        <span>Alcove</span>
      </a>
      {owner ? <TenantChooser /> : <span class="where">{visible(tenant.value)}</span>}
      <NamespaceChooser />
      <button type="button" class="jump" onClick={() => (commandOpen.value = true)}>
        <span>{t().goTo}</span>
        <kbd>:</kbd>
      </button>
      <UserMenu />
    </header>
  );
}

function TenantChooser() {
  const names = [...new Set([SYSTEM, tenant.value, ...tenantNames.value])].filter((name) => name && name !== ALL);
  const onTenant = route.value.parts[0] === "t";
  return (
    <label class="choice">
      <span>{t().tenant}</span>
      <select
        value={tenant.value}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          namespace.value = "";
          const [, , view, kind] = route.value.parts;
          go(onTenant && view === "k" && kind ? ["t", chosen, "k", kind] : onTenant && view && view !== "o" ? ["t", chosen, view] : ["t", chosen]);
        }}
      >
        <option value={ALL}>{t().allTenants}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {name === SYSTEM ? "system (ring0)" : visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

function NamespaceChooser() {
  const names = [...new Set([...namespaces.value, namespace.value])].filter(Boolean);
  return (
    <label class="choice">
      <span>{t().namespace}</span>
      <select
        value={namespace.value}
        onChange={(event) => {
          namespace.value = event.currentTarget.value;
          if (route.value.query["ns"] !== undefined) setQuery({ ns: namespace.value });
        }}
      >
        <option value="">{t().allNamespaces}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

function UserMenu() {
  return (
    <details class="user">
      <summary title={user.value?.name}>
        <span class="who">{visible(user.value?.name.replace(/^system:serviceaccount:/, ""))}</span>
        <span class="of">{visible(user.value?.tenant)}</span>
      </summary>
      <div class="popup">
        <p>
          <b>{visible(user.value?.name)}</b>
          <br />
          {(user.value?.groups ?? []).map(visible).join(", ")}
        </p>
        <label>
          {t().theme}
          <select value={theme.value} onChange={(event) => (theme.value = THEMES.find((each) => each === event.currentTarget.value) ?? "auto")}>
            {THEMES.map((each) => (
              <option key={each} value={each}>
                {t().themes[each]}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t().language}
          <select value={language.value} onChange={(event) => (language.value = event.currentTarget.value as Language)}>
            {Object.entries(LANGUAGES).map(([code, name]) => (
              <option key={code} value={code}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => (keyHelpOpen.value = true)}>
          {t().keys} <kbd>?</kbd>
        </button>
        <button type="button" onClick={() => void signOut()}>
          {t().signOut}
        </button>
      </div>
    </details>
  );
}

export function tenantLink(name: string): string {
  return link(["t", name]);
}
