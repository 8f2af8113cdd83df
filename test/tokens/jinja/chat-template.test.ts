import { describe, expect, test } from "bun:test";
import { ChatTemplate, isRefusal } from "../../../src/tokens/jinja/chat-template.ts";
import { type Json, parseJson } from "../../../src/tokens/jinja/json.ts";

const NOON = Date.parse("2026-02-03T12:34:56");

function render(template: string, variables: Record<string, string> = {}): string {
  const given = Object.entries(variables).map(([name, json]): [string, Json] => [name, parseJson(json)]);
  return new ChatTemplate(template, { nowMs: () => NOON }).render(new Map(given));
}

/** What Python's jinja2 gives for the same template, as it was run once. */
describe("ChatTemplate", () => {
  test.each<[string, string]>([
    ["{{ true }} {{ false }} {{ none }} {{ missing }}", "True False None "],
    ["{{ 1.0 }} {{ 1 }} {{ -0.0 }} {{ 2.5 }}", "1.0 1 -0.0 2.5"],
    ["{{ [1, 'a', none, true, 2.0, \"it's\"] }}", "[1, 'a', None, True, 2.0, \"it's\"]"],
    ["{{ {'a': {'b': 'x\\ny'}} }}", "{'a': {'b': 'x\\ny'}}"],
    ["{{ (1, 'a') }}", "(1, 'a')"],
    ["{{ '  a \\n'.strip('\\n') }}|{{ 'xxayx'.lstrip('x') }}|{{ 'xaxx'.rstrip('x') }}", "  a |ayx|xa"],
    [
      "{{ ' a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }}",
      "['a', 'b', 'c'] ['a', 'b,c'] ['a,b', 'c']",
    ],
    [
      "{{ 'hELLO wORLD'.title() }} {{ 'hELLO'.capitalize() }} {{ 'aXbX'.replace('X', '-', 1) }}",
      "Hello World Hello a-bX",
    ],
    ["{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c') }}", "True True"],
    ["{{ '😀b'|length }} {{ '😀b'[0] }} {{ '😀b'[-1] }} {{ '😀bc'[1:] }}", "2 😀 b bc"],
    [
      "{{ 1 == true }} {{ '1' == 1 }} {{ [1, [2]] == [1, [2]] }} {{ none == missing }} {{ {'a': 1} == {'a': 1.0} }}",
      "True False True False True",
    ],
    ["{{ 'a' in {'a': 1} }} {{ 2 in [1, 2.0] }} {{ 'b' not in 'abc' }}", "True True False"],
    ["{{ [] or {} or '' or 0 or 'x' }}{{ not [] }}", "xTrue"],
    ["{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 2 %}{% endfor %}{{ x }}", "111"],
    ["{% for i in [1, 2, 3] %}{{ i }}{% if i == 2 %}{% break %}{% endif %},{% endfor %}", "1,2"],
    ["{% for i in [1, 2, 3] %}{{ i }}{% if i == 2 %}{% continue %}{% endif %},{% endfor %}", "1,23,"],
    ["{% for i in [] %}x{% else %}none{% endfor %}{% for i in missing %}x{% endfor %}", "none"],
    [
      "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{{ loop.index0 }}{{ loop.last }} {% endfor %}",
      "b10False a21True ",
    ],
    ["{% for c in 'ab' %}{{ loop.previtem }}{{ c }}{% endfor %}", "aab"],
    ["{% set ns = namespace(a=1) %}{% for i in [1] %}{% set ns.a = 2 %}{% endfor %}{{ ns.a }}", "2"],
    ["{% macro m(a, b=2) %}{{ a }}{{ b }}{{ i }}{% endmacro %}{% for i in [7] %}{{ m(1) }}{% endfor %}", "12"],
    ["{{ {'items': 1}['items'] }} {{ {'items': 1}.items()|length }}", "1 1"],
    [
      "{{ [3, 'x']|join('-') }} {{ 'abc'|list }} {{ missing|default('d') }} {{ ''|default('e', true) }}",
      "3-x ['a', 'b', 'c'] d e",
    ],
    [
      "{{ none is none }} {{ 1 is number }} {{ true is integer }} {{ {} is iterable }} {{ 'a' is sequence }}",
      "True True False True True",
    ],
    ["{{ ('a'|safe) + '<\\'\"&>' }} {{ ('<'|safe) ~ '<' }}", "a&lt;&#39;&#34;&amp;&gt; <<"],
    ["{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"],
    ["{{ strftime_now('%d %b %Y, %A %B %Y-%m-%d %H:%M') }}", "03 Feb 2026, Tuesday February 2026-02-03 12:34"],
    ["{{ range(3)|list }} {{ range(4, 0, -2)|list }}", "[0, 1, 2] [4, 2]"],
    ["{{ {'a': [1.0, true, none], 'é': '<b>'}|tojson }}", '{"a": [1.0, true, null], "é": "<b>"}'],
    ["{{ {'a': [1], 'b': {}, 'c': []}|tojson(indent=2) }}", '{\n  "a": [\n    1\n  ],\n  "b": {},\n  "c": []\n}'],
    [
      "{{ {'b': 'é', 'a': 1}|tojson(sort_keys=true, ensure_ascii=true, separators=(',', ':')) }}",
      '{"a":1,"b":"\\u00e9"}',
    ],
  ])("renders %j", (template, expected) => {
    expect(render(template)).toBe(expected);
  });

  test.each<[string, string]>([
    ["9007199254740993", "9007199254740993"],
    ["-123456789012345678901234567890", "-123456789012345678901234567890"],
    ["-0", "0"],
    ["1.0", "1.0"],
    ["-0.0", "-0.0"],
    ["1e5", "100000.0"],
    ["1e16", "1e+16"],
    ["123456789012345680.0", "1.2345678901234568e+17"],
    ["1234567890123456.7", "1234567890123456.8"],
    ["0.0001", "0.0001"],
    ["0.00001234", "1.234e-05"],
    ["-2.5E-7", "-2.5e-07"],
    ["0.1", "0.1"],
    ["-0.00123", "-0.00123"],
    ["1e400", "Infinity"],
    ["5e-324", "5e-324"],
    ["1e22", "1e+22"],
  ])("shows the number %s as Python does", (json, expected) => {
    expect(render("{{ x|tojson }}", { x: json })).toBe(expected);
  });

  test.each([
    "{{ raise_exception('no') }}",
    "{{ 'a' + 1 }}",
    "{{ missing.a }}",
    "{{ 1|length }}",
    "{% for i in 1 %}{% endfor %}",
  ])("refuses %j, as Python does", (template) => {
    expect(isRefusal(thrown(() => render(template)))).toBe(true);
  });

  test.each(["{{ 'a'|wordwrap }}", "{{ strftime_now('%j') }}", "{{ 'a'.swapcase() }}", "{{ [1]|map('int')|list }}"])(
    "says of %j that it is not known here, which is no refusal",
    (template) => {
      const error = thrown(() => render(template));
      expect(error).toBeInstanceOf(Error);
      expect(isRefusal(error)).toBe(false);
    },
  );
});

function thrown(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}
