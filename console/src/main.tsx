// Starts the console.
import { render } from "preact";
import { followVisibility } from "./api/feed";
import { App } from "./app";
import { keepSettings } from "./state/settings";
import { restore } from "./state/session";
import { followTenant } from "./state/tenant";
import { message } from "./api/http";
import { toast } from "./parts/basics";

keepSettings();
followVisibility();
followTenant();
void restore().catch((error: unknown) => toast(message(error), "bad"));
render(<App />, document.getElementById("app")!);
