"""Make a tiny random GPT-2 checkpoint with a byte-level tokenizer; nothing is downloaded.

GPT-2 is what a stock SGLang wheel serves on a CPU without AMX. The answers are noise; the log, the
endpoints and the metrics are the engine's own. Runs in the engine's interpreter (torch,
transformers, tokenizers). Usage: make_tiny_model.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import tokenizers
import torch
import transformers

CONTEXT_TOKENS = 4096
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(folder: Path) -> None:
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    text = Path(transformers.__file__).read_text(encoding="utf-8").splitlines()
    bpe.train_from_iterator(
        text,
        tokenizers.trainers.BpeTrainer(
            vocab_size=1000,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=alphabet,
        ),
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)


def make_weights(folder: Path) -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=1024,
        n_positions=CONTEXT_TOKENS,
        n_embd=128,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=2,
    )
    transformers.GPT2LMHeadModel(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make_tokenizer(target)
    make_weights(target)
