/** `bun run size`: files and lines of each folder of src, and the ten largest files. */
const root = `${import.meta.dir}/../src`;
const files: { path: string; lines: number }[] = [];
for (const path of new Bun.Glob("**/*.{ts,py}").scanSync(root)) {
  files.push({ path, lines: (await Bun.file(`${root}/${path}`).text()).split("\n").length - 1 });
}
const folders = new Map<string, { files: number; lines: number }>();
for (const { path, lines } of files) {
  const folder = path.includes("/") ? path.slice(0, path.indexOf("/")) : ".";
  const sum = folders.get(folder) ?? { files: 0, lines: 0 };
  folders.set(folder, { files: sum.files + 1, lines: sum.lines + lines });
}
console.log("folder        files  lines");
for (const [folder, sum] of [...folders].sort((left, right) => right[1].lines - left[1].lines)) {
  console.log(`${folder.padEnd(12)} ${String(sum.files).padStart(6)} ${String(sum.lines).padStart(6)}`);
}
console.log(
  `${"all".padEnd(12)} ${String(files.length).padStart(6)} ${String(files.reduce((sum, file) => sum + file.lines, 0)).padStart(6)}`,
);
console.log("\nlargest");
for (const file of files.sort((left, right) => right.lines - left.lines).slice(0, 10)) {
  console.log(`${String(file.lines).padStart(6)}  ${file.path}`);
}
