/** A template's own `raise_exception`. */
export class TemplateRefusal extends Error {}

/** What Python would raise a TypeError or an UndefinedError for: its engine refuses these messages as well. */
export class PythonTypeError extends Error {}
