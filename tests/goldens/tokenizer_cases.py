#!/usr/bin/env python3
"""Writes tests/goldens/tokenizer: files of Hugging Face's tokenizers and transformers, and their results for texts.

    pip install tokenizers==0.23.3 transformers==5.24.0 torch
    python3 tests/goldens/tokenizer_cases.py data/tinyshakespeare/input.txt
"""

import json
import pathlib
import random
import sys

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models
from tokenizers.pre_tokenizers import ByteLevel

SPECIAL, VOCABULARY, CONTEXT, NEW_TOKENS = "<|endoftext|>", 400, 128, 100
rule = ByteLevel(add_prefix_space=False, use_regex=True)

TEXTS = [
    "", "a", " ", "  ", "\n", " \n", "\n ", "First Citizen:\nBefore we proceed any further, hear me speak.\n\n",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'Ve it's we're I've I'm she'll he'd don't rock'n'roll ''s 'sa 'lla 'l 'v",
    "they'll!'s 'rest 'tis 'd've \u2019s we\u2019re", " 's", "'", "''", " '", "a'", "1's", "!'s",
    "two  blanks, three   blanks,    four\tTab\t\ttabs \t mixed\t word", "trailing   ", "trailing\n\n", "   leading",
    "\n\n\nlines\n\n  indented\n\tby a tab\r\nCR LF\rCR", "a \nb  \nc\n d\n\n e", "word \t", "x\x0b\x0cy", "\x00\x01 \x7f",
    "\x1c\x1d\x1e\x1f separators", "no\u00a0break\u00a0\u00a0spaces \u00a0 mixed", "thin\u2009space\u3000ideographic",
    "\u0085next line\u2028line\u2029paragraph", "zero\u200bwidth\u200djoiner\ufeffmark", "soft\u00adhyphen",
    "Größe naïve façade ÆØÅ ß ŉ ǅ", "Ελληνικά кириллица עברית عربي हिन्दी ไทย", "日本語のテキスト 中文 한국어 ㄱ",
    "cafe\u0301 a\u0308o\u0301 combining \u0301alone e\u0301\u0302", "नि \u0928\u093f किताब",
    "1 12 123 3.14 1,000 2nd 1st x2 2x", "١٢٣ १२३ Ⅷ ⅓ ½² ㊂ 〇 𝟘𝟙 ①", "𝒜𝔅 𐐀 𠀀 ª º ⁿ ₂",
    "😀 😀😀 👍🏽 👩‍👩‍👧 🇩🇪 ☕️ a😀b 1😀2 😀!", "price: $5.00 (10% off) #1 @home a+b=c && x || y -- ... ?!",
    "snake_case CamelCase kebab-case e-mail@example.org https://x.org/?q=1&r=2", "_ __ a_b _1", "ﬁ Ǆ ʰ ـ ﷺ ･ﾊ",
    SPECIAL, f"one{SPECIAL}two", "<|", "Ġ ĠĠ Ċ č", "a" * 50, " a" * 20, "ab" * 30, "the" * 20, "." * 40, "\u0558 \u10ffff",
]
INVALID = [b"\xff", b" \xff\xfe", b"a\xffb", b"\xc3", b"\xc3(", b"caf\xc3", b"\xe2\x82", b"1\x80\x802", b"'\xff's", b"\xed\xa0\x80",
           b"\xf0\x9f\x98", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff \xff  \xff\n\xff", bytes(range(256)), bytes(range(255, -1, -1))]


def byte_characters():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def pieces_of(content):
    """Hugging Face does not accept invalid bytes. A replacement character in place of each has the same class."""
    characters = content.decode("utf-8", "surrogateescape")
    replaced = "".join("\ufffd" if 0xDC80 <= ord(c) < 0xDD00 else c for c in characters)
    offsets = [place for _, place in rule.pre_tokenize_str(replaced)]
    return [characters[begin:end].encode("utf-8", "surrogateescape") for begin, end in offsets]


def save_tokens(folder, text):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([text], vocab_size=VOCABULARY - 1, min_frequency=2, show_progress=False)
    trained.save_model(str(folder))
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text()) | {SPECIAL: VOCABULARY - 1}
    path.write_text(json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")))


def save_cases(folder):
    files = str(folder / "vocab.json"), str(folder / "merges.txt")
    whole = Tokenizer(models.BPE.from_file(*files))
    whole.pre_tokenizer = rule
    piece_by_piece = Tokenizer(models.BPE.from_file(*files))  # takes any bytes, spelled as characters
    spelled = byte_characters()
    draw = random.Random(1)
    mixed = " \n\t'\u00a0\u3000sStrevmlld aéßΩя中あ1½²Ⅷ😀\u0301\u200d_-.,!"
    texts = TEXTS + ["".join(draw.choices(mixed, k=draw.randrange(60))) for _ in range(100)]
    contents = [text.encode() for text in texts] + INVALID + [draw.randbytes(draw.randrange(1, 60)) for _ in range(60)]
    cases = []
    for content in contents:
        pieces = pieces_of(content)
        assert b"".join(pieces) == content
        ids = [i for piece in pieces for i in piece_by_piece.encode("".join(map(spelled.get, piece))).ids]
        if content.decode("utf-8", "ignore").encode() == content:
            assert whole.encode(content.decode()).ids == ids
        cases.append({"bytes": content.hex(), "pieces": [len(piece) for piece in pieces], "ids": ids})
    (folder / "cases.json").write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")
    print(f"{len(cases)} texts")
    return whole


def save_model(folder, tokens, text):
    """A small GPT-2 that has learned a little, so that its text varies, and its continuations of prompts."""
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=VOCABULARY - 1, eos_token_id=VOCABULARY - 1, attn_implementation="eager",
    )
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    data = torch.tensor(tokens.encode(text).ids)
    for step in range(600):
        starts = torch.randint(len(data) - CONTEXT, (8,))
        batch = torch.stack([data[start:start + CONTEXT] for start in starts])
        loss = model(batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.3f}")
    model.eval().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)  # not part of the model

    model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64).eval()
    continuations = []
    for prompt in ["First Citizen:\n", "ROMEO: But soft, what light", "\n", "café 😀"]:
        ids = torch.tensor([tokens.encode(prompt).ids])
        out = model.generate(ids, do_sample=False, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS,
                             attention_mask=torch.ones_like(ids), pad_token_id=VOCABULARY - 1, output_scores=True,
                             return_dict_in_generate=True)
        new = out.sequences[0, ids.shape[1]:].tolist()
        assert len(new) == NEW_TOKENS
        margin = min((top[0] - top[1]).item() for top in (score[0].topk(2).values for score in out.scores))
        print(f"{prompt!r}: {len(set(new))} different tokens, least margin {margin:.2g}")
        continuations.append({"prompt": prompt, "ids": new})
    (folder / "continuations.json").write_text("[\n" + ",\n".join(map(json.dumps, continuations)) + "\n]\n")


if __name__ == "__main__":
    learned = pathlib.Path(sys.argv[1]).read_text()[:200_000]
    place = pathlib.Path(__file__).parent / "tokenizer"
    place.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    save_tokens(place, learned)
    save_model(place, save_cases(place), learned)
