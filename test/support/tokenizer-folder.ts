import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { ensureModel } from "../../scripts/setup/model.ts";

/** Chat templates of other families, written with SmolLM2's tokens. */
export const TEMPLATES = {
  /** Qwen3's habit: reasoning is dropped from earlier turns, tools stand in the system message, contents are trimmed. */
  qwen3: `{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == "assistant" %}{{- '<|im_start|>assistant\\n' }}{%- if loop.last %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{{- message.content.split('</think>')[-1].lstrip('\\n') }}{%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == "tool" %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`,
  /** No line break after the end token, which is not `eos_token`; refuses what is neither user nor assistant. */
  strict: `{%- for message in messages %}{%- if message.role not in ["user", "assistant"] %}{{- raise_exception("only user and assistant") }}{%- endif %}{{- '<|im_start|>' + message.role + ': ' + message.content + '<|endoftext|>' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant: ' }}{%- endif %}`,
} as const;

/** A copy of the demo model's tokenizer folder, with another chat template where one is given. */
export async function tokenizerFolder(template: string | null): Promise<AsyncDisposable & { path: string }> {
  const { tokenizer } = await ensureModel(cacheDir(), () => {});
  const path = await mkdtemp(join(tmpdir(), "rolloutd-tokenizer-"));
  await cp(tokenizer, path, { recursive: true });
  if (template !== null) await Bun.write(join(path, "chat_template.jinja"), template);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
