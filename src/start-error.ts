/** Why the server, or a command that works as it does, does not start, in words for whoever started it. */
export class StartError extends Error {
  override readonly name = "StartError";
}
