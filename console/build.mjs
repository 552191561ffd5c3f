// Builds the console into src/alcove/console/static: what the API server serves, and what is committed.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../src/alcove/console/static"));

await mkdir(out, { recursive: true });
for (const name of await readdir(out)) await rm(join(out, name));
await build({
  entryPoints: { app: join(here, "src/main.tsx"), style: join(here, "src/style/all.css") },
  outdir: out,
  absWorkingDir: here,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["chrome110", "firefox110", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  chunkNames: "[name]-[hash]",
  define: { "process.env.NODE_ENV": '"production"' },
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(out, name));

// By which a test knows, without Node, that these files were built from these sources.
const sources = (await readdir(join(here, "src"), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(here.length + 1));
const digest = createHash("sha256");
for (const name of [...sources, "build.mjs", "package.json", "package-lock.json", "tsconfig.json"].sort()) {
  digest.update(`${name}\0`).update(await readFile(join(here, name)));
}
await writeFile(join(out, "sources.sha256"), `${digest.digest("hex")}\n`);
