/** Files that are embedded in the binary; the import gives their path. */
declare module "swagger-ui-dist/*" {
  const path: string;
  export default path;
}
