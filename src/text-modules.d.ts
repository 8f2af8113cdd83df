/** Files that are embedded as text: `import source from "./judge.py" with { type: "text" }`. */
declare module "*.py" {
  const text: string;
  export default text;
}
declare module "*/NOTICE" {
  const text: string;
  export default text;
}
declare module "*.jsonl" {
  const text: string;
  export default text;
}
declare module "*/apparmor/rolloutd" {
  const text: string;
  export default text;
}
declare module "*/recipe.toml" {
  const text: string;
  export default text;
}
declare module "*/pip.lock" {
  const text: string;
  export default text;
}
