import { type InputFault, RequestError } from "../errors.ts";

/** A row that no handler can work with; each fault names a field, from the task's root. */
export function taskInvalid(detail: string, faults: readonly InputFault[]): RequestError {
  return new RequestError("task_invalid", detail, faults);
}
