"""Renders conversations with transformers and its jinja2: the answers that the local renderer is compared with.

Reads one JSON document from stdin: {"families": [{"folder", "variables", "cells": [{"messages", "tools"}]}]}.
Writes one: a list for each family, of {"ids", "text"} or {"refused"} for each cell.
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from transformers import PreTrainedTokenizerFast  # noqa: E402


def render(tokenizer, cell, variables):
    try:
        text = tokenizer.apply_chat_template(
            cell["messages"],
            tools=cell["tools"] or None,
            add_generation_prompt=True,
            tokenize=False,
            **variables,
        )
    except Exception as error:  # the template's own refusal, or what Python cannot do
        return {"refused": f"{type(error).__name__}: {error}"}
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return {"ids": tokenizer.encode(text, add_special_tokens=False), "text": text}


def answers(family):
    folder = family["folder"]
    with open(f"{folder}/tokenizer_config.json", encoding="utf-8") as file:
        config = json.load(file)
    special = {name: config[name] for name in ("bos_token", "eos_token", "pad_token", "unk_token") if config.get(name)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", **special)
    with open(f"{folder}/chat_template.jinja", encoding="utf-8") as file:
        tokenizer.chat_template = file.read()
    return [render(tokenizer, cell, family["variables"]) for cell in family["cells"]]


json.dump([answers(family) for family in json.load(sys.stdin)["families"]], sys.stdout)
