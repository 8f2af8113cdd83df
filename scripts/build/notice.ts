import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bundledModules } from "./compile.ts";

const ROOT = join(import.meta.dir, "../..");
const LICENSES = join(ROOT, "packaging/licenses");
const RULE = "=".repeat(80);
/** A package's own licence, and the notices of what it has bundled into itself. */
const LICENSE_FILE = /^(licen[sc]e(-\w+)?(\.\w+)?|notice(\.\w+)?|copying|swagger-ui-bundle\.js\.LICENSE\.txt)$/i;

/** One npm package that a binary holds. */
export interface BundledPackage {
  name: string;
  version: string;
  license: string;
  /** Its licence and notice files, joined; empty when it brings none. */
  text: string;
}

/** The text of NOTICE for what a binary built now would hold. */
export async function noticeText(): Promise<string> {
  const packages = await bundledPackages();
  const list = packages.map(({ name, version, license }) => `  ${`${name} ${version}`.padEnd(44)}${license}`);
  return [
    readFileSync(join(LICENSES, "preamble.txt"), "utf8").trimEnd(),
    "",
    ...heading("npm packages"),
    ...list,
    "",
    ...packages.flatMap((one) => [...heading(`${one.name} ${one.version}`), ownText(one), ""]),
    ...heading("Apache License 2.0"),
    readFileSync(join(ROOT, "LICENSE"), "utf8").trim(),
    "",
    ...heading("GNU Lesser General Public License 2.1"),
    readFileSync(join(LICENSES, "LGPL-2.1.txt"), "utf8").trimEnd(),
    "",
  ].join("\n");
}

/** The npm packages that the bundler takes something from, by name. */
async function bundledPackages(): Promise<BundledPackage[]> {
  const folders = new Set((await bundledModules()).map(packageFolder));
  return [...folders].map(readPackage).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** `node_modules/@a/b` of `../node_modules/@a/b/c/d.js`; the innermost when packages are nested. */
function packageFolder(path: string): string {
  const at = path.lastIndexOf("node_modules/");
  const parts = path.slice(at).split("/");
  return `${path.slice(0, at)}${parts.slice(0, parts[1]?.startsWith("@") ? 3 : 2).join("/")}`;
}

function readPackage(folder: string): BundledPackage {
  const path = join(ROOT, folder.slice(folder.indexOf("node_modules/")));
  const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  if (typeof license !== "string") throw new Error(`${name} ${version} names no licence: read it, and add it here`);
  const files = existsSync(path) ? readdirSync(path).filter((file) => LICENSE_FILE.test(file)) : [];
  const text = files
    .sort()
    .map((file) => readFileSync(join(path, file), "utf8").trim())
    .filter((content) => !content.includes("Apache License")) // once, at the end
    .join("\n\n");
  return { name, version, license, text };
}

function ownText({ license, text }: BundledPackage): string {
  const from = license === "Apache-2.0" ? "Apache License 2.0, at the end of this file." : MIT_WITHOUT_FILE;
  if (license === "Apache-2.0") return [from, text].join("\n\n").trim();
  return text === "" ? from : text;
}

const MIT_WITHOUT_FILE = `The package brings no licence file and declares MIT:

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

function heading(title: string): string[] {
  return [RULE, title, RULE, ""];
}

if (import.meta.main) {
  await Bun.write(join(ROOT, "NOTICE"), await noticeText());
  console.log("NOTICE written");
}
