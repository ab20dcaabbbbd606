#!/usr/bin/env python3
"""Writes the short seeds of tests/fuzz: python3 tests/fuzz/make_corpus.py

The seeds of config, run_folder and checkpoint are files of real runs of the smallest models.
"""

import gzip
import json
import pathlib
import struct
import zlib

corpus = pathlib.Path(__file__).parent / "corpus"


def write(target, name, content):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def safetensors(tensors, metadata=None):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


write("safetensors", "empty", safetensors({}))
write("safetensors", "one", safetensors({"x": ("F32", [2, 1], struct.pack("<2f", 1, -2.5))}, {"made": "by hand"}))
write("safetensors", "scalar", safetensors({"x": ("F64", [], struct.pack("<d", 0.1))}))
write("safetensors", "no_elements", safetensors({"x": ("I64", [0, 3], b"")}))
for dtype, size in [("BOOL", 1), ("U8", 1), ("I8", 1), ("F8_E4M3", 1), ("F8_E5M2", 1), ("F16", 2), ("BF16", 2),
                    ("I16", 2), ("U16", 2), ("I32", 4), ("U32", 4), ("I64", 8), ("U64", 8)]:
    write("safetensors", dtype, safetensors({"x": (dtype, [2], bytes([0, 1] * size)), "y": (dtype, [1], bytes(size))}))


def idx(shape, content):
    return bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", size) for size in shape) + content


images = idx([2, 3, 3], bytes(range(18)))
write("idx", "images", images)
write("idx", "labels", idx([4], bytes([0, 1, 2, 9])))
write("idx", "images.gz", gzip.compress(images, mtime=0))
write("idx", "two_members.gz", gzip.compress(images[:20], mtime=0) + gzip.compress(images[20:], mtime=0))
write("idx", "zeros.gz", gzip.compress(idx([100, 100], bytes(10_000)), mtime=0))

write("sequences", "listops", b"\0Source\tTarget\n( ( ( [MED 2 ) 5 ) ] )\t3\n( ( ( [MAX 1 ) [SM ( 2 ) 9 ] ) ] )\t1\n7\t7\n")
write("sequences", "pairs", b"\x010.0\tA\tB\tone text\tanother\n1.0\tC\tD\tsame\tsame\n")
write("sequences", "cifar", b"\x02" + bytes([3] + [i % 251 for i in range(3072)]) + bytes([9] + [255] * 3072))

for choice in range(4):
    write("text", f"ascii_{choice}", bytes([choice]) + b"First Citizen:\r\nBefore we proceed\rany further\n")
    write("text", f"utf8_{choice}", bytes([choice]) + "\ufeffGrüße, Ελλάδα, 你好, 😀\n".encode())

for name, arguments in {
    "steps": ["--steps", "100", "--seed=7"],
    "model": ["--attention", "fastmax2", "--layers", "2", "--heads", "2", "--width", "32", "--context", "16"],
    "fastmax": ["--attention", "fastmax1", "--fastmax-scale", "sqrt", "--dropout-kind", "token"],
    "fastformer": ["--attention", "fastformer", "--share", "heads,layers", "--short-conv", "4", "--projections", "4"],
    "training": ["--batch", "4", "--accumulate", "2", "--schedule", "linear", "--lr", "1e-3", "--clip", "0"],
    "preset": ["--preset", "nanogpt-cpu", "--threads", "1", "--device", "cpu", "--precision", "float32"],
    "wrong": ["--steps", "-1", "--lr", "nan", "--nonsense", "--data", "", "--out", "out/x"],
}.items():
    write("command_line", name, "\n".join(arguments).encode())

gpt2 = {"model_type": "gpt2", "vocab_size": 17, "n_positions": 10, "n_embd": 12, "n_layer": 2, "n_head": 3}
write("gpt2_config", "least", json.dumps(gpt2).encode())
write("gpt2_config", "all", json.dumps(gpt2 | {
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "tie_word_embeddings": True, "n_inner": None,
    "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False,
    "attn_pdrop": 0.1, "resid_pdrop": 0, "task_specific_params": {"text": [{"max_length": 50}]}}).encode())
write("gpt2_config", "inner", json.dumps(gpt2 | {"n_inner": 48, "n_layer": 18446744073709551615}).encode())
write("gpt2_config", "llama", json.dumps(gpt2 | {"model_type": "llama"}).encode())

write("vocabulary", "bytes", b"\1" + b"0 9 10 127 128 255")
write("vocabulary", "code_points", b"\0" + b"10 32 228 8364 128512 1114111")
write("vocabulary", "beyond", b"\1" + b"65 256")
write("vocabulary", "surrogate", b"\0" + b"65 55296")

write("safetensors", "unknown_field", safetensors({})[:8] + b'{"x":{"y":[[{}]],"dtype":"I8","shape":[0],'
      b'"data_offsets":[0,0]}}')

# NumPy's files are the same as those of the goldens.
for source in sorted((pathlib.Path(__file__).parent.parent / "goldens" / "numpy").iterdir()):
    write("npy", source.name, source.read_bytes())

for choice in range(4):
    write("csv", f"quotes_{choice}", bytes([choice]) + b'a,"b ""c""";d\r\n1.5,"x\n,;y";\r\n\r\n-2e3,NA,7\n')
    write("csv", f"plain_{choice}", bytes([choice]) + b"\xef\xbb\xbfx,y\n1,2\n3,four\n")
    write("csv", f"semicolons_{choice}", bytes([choice]) + b"x;y\r1,5;2\r3;\r")
    write("csv", f"open_{choice}", bytes([choice]) + b'x,y\n"1,2\n')

# MIND's news.tsv and behaviors.tsv, separated by a byte 0, and lines of JSON.
mind = pathlib.Path(__file__).parent.parent / "goldens" / "mind" / "dev"
news, shown = (b"".join((mind / name).read_bytes().splitlines(True)[:4]) for name in ("news.tsv", "behaviors.tsv"))
ads = b'{"behaviours": ["red shoes", [3, 4]], "ad": "shoes", "label": 1}\n{"behaviours": [], "ad": "", "label": 0}\n'
for choice in range(2):
    write("users", f"mind_{choice}", bytes([choice]) + news + b"\0" + shown)
    write("users", f"small_{choice}", bytes([choice]) + news + b"\0" + b"1\tU\tt\tN50 N9\tN51-1 N52-0\r\n2\tU\tN53\n")
    write("users", f"ads_{choice}", bytes([2 + choice]) + ads)
    write("users", f"cut_{choice}", bytes([2 + choice]) + ads * 3 + ads[:40])

# A vocabulary and merges, separated by a byte 0.
tokenizer = pathlib.Path(__file__).parent.parent / "goldens" / "tokenizer"
vocabulary, merges = (tokenizer / "vocab.json").read_bytes(), (tokenizer / "merges.txt").read_bytes()
write("tokenizer", "trained", vocabulary + b"\0" + merges)
smaller = {token: number for token, number in json.loads(vocabulary).items() if number < 258}
for name, tokens in {"lines": {"indent": 0}, "escapes": {"ensure_ascii": True}}.items():
    text = json.dumps(smaller | {"<s>": 258, "é \n": 259}, **{"ensure_ascii": False} | tokens)
    write("tokenizer", name, text.encode() + b"\0" + b"\r\n".join(merges.split(b"\n")[1:3]))
write("tokenizer", "repeated", vocabulary + b"\0" + merges + merges)

write("words", "lines", b"<pad>\n<unk>\nthe\nof\n.\n")
write("words", "returns", b"<pad>\r\n<unk>\r\nNew York\r\n\xff\r\n")
write("words", "twice", b"<pad>\n<unk>\na\nb\na\n")
write("words", "cut", b"<pad>\n<unk>\nth")

write("glove", "plain", b"a 0.1 -2\nb 1e-3 4\nc 5 6\n")
write("glove", "word2vec", b"3 2\na 0.1 -2 \nb 1e-3 4 \n. . . 5 6 \n")
write("glove", "repeated", b"a 1 2\r\na 3 4\r\nb c 5 6\r\n")
write("glove", "wide", b"a" + b" 1" * 1024 + b"\nb" + b" 2" * 1024 + b"\n")

# The first byte chooses the format.
objects = "".join(json.dumps({"text": f"text {i}", "label": i % 2}) + "\n" for i in range(10)).encode()
write("labelled_texts", "jsonl", b"\0" + objects)
write("labelled_texts", "jsonl.gz", b"\1" + gzip.compress(objects, mtime=0))
write("labelled_texts", "tsv", b"\2" + b"x\tone word\ny\ttwo\n" * 5)
write("labelled_texts", "csv", b"\3" + b'x,"one, ""word"""\ny,two\n' * 5)
write("labelled_texts", "news", b"\4" + b"N1\tsports\tgolf\tTitle\tAbstract\nN2\tnews\tx\tTitle\t\n" * 5)
play = b"A:\nTo be. Not!\n\nB:\nor not\nto be\n\n" * 10
write("labelled_texts", "play", b"\5" + play)
write("labelled_texts", "sentences", b"\13" + play)

# The first byte chooses the ending and whether malformed articles are errors.
articles = "".join(json.dumps({"article": f"text é {i}", "summary": "one\ntwo"}) + "\n" for i in range(3)).encode()
pubmed = json.dumps({"article_text": ["one .", " two ."], "abstract_text": ["<S> one . </S>", "<S></S>", "two"]})
story = b"A text.\r\n\r\nMore of it.\n\n@highlight\n\nA sentence\n\n@highlight\n\nAnother one\n"
for choice in range(2):
    write("articles", f"lines_{choice}", bytes([choice]) + articles)
    write("articles", f"pubmed_{choice}", bytes([2 + choice]) + pubmed.encode() + b"\n" + articles)
    write("articles", f"cut_{choice}", bytes([choice]) + articles + articles[:20])
    write("articles", f"story_{choice}", bytes([4 + choice]) + story)


def png(width, height, depth, colours, rows, *chunks, interlaced=0):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, interlaced)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


# The first byte chooses the channels and whether checksums are made right. A row begins with its filter.
ramp = bytes(range(0, 240, 20))
palette = (b"PLTE", bytes(range(12))), (b"tRNS", bytes([0, 128, 255]))
for choice in (0, 5, 6):
    write("png", f"grey_{choice}", bytes([choice]) + png(3, 2, 8, 0, b"\0\1\2\3\1\4\5\6"))
    write("png", f"colours_{choice}", bytes([choice]) + png(2, 2, 8, 2, b"\2" + ramp[:6] + b"\3" + ramp[6:]))
    write("png", f"palette_{choice}", bytes([choice]) + png(4, 1, 2, 3, b"\0\x1b", *palette))
    write("png", f"deep_{choice}", bytes([choice]) + png(1, 1, 16, 6, b"\4" + ramp[:8], (b"gAMA", b"\0\0\xb1\x8f")))
    passes = b"".join(b"\0" + ramp[i:j] for i, j in ((0, 2), (2, 4), (4, 8)))
    write("png", f"interlaced_{choice}", bytes([choice]) + png(2, 2, 8, 4, passes, interlaced=1))
write("png", "huge", b"\1" + png(1 << 13, 1 << 13, 1, 0, bytes(1 << 10)))
write("png", "cut", b"\1" + png(1400, 1400, 1, 0, bytes(range(200))))
write("png", "two_channels", b"\3" + png(1, 1, 1, 0, b"\0\0"))

results = {"step": 100, "loss": 1.25, "ms_per_step": 3.5, "parameters": 1000, "peak_bytes": 123456}
write("results", "least", json.dumps(results).encode())
write("results", "all", json.dumps(results | {
    "accuracy": 0.5, "constant_accuracy": 0.25, "measures": {"f1": 0.5, "auc": None},
    "processes": {"count": 2, "waited_ms_per_step": 0.1, "sent_bytes_per_step": 4e3}}, indent=2).encode())

manifest = {"generator": "small", "version": 1, "seed": 1, "options": {"length": 3},
            "counts": {"train": 2, "dev": 1, "test": 1}}
parts = {"train": (bytes(range(1, 7)), b"\0\1"), "dev": (bytes(range(7, 10)), b"\2"),
         "test": (bytes(range(10, 13)), b"\3")}
sums = {f"{part}-{kind}-idx{rank}-ubyte": f"{zlib.crc32(content):08x}" for part, both in parts.items()
        for kind, rank, content in zip(("sequences", "labels"), (2, 1), both)}
write("manifest", "whole", json.dumps(manifest | {"crc32": sums}, indent=2).encode())
write("manifest", "without_sums", json.dumps(manifest).encode())
write("manifest", "another_seed", json.dumps(manifest | {"seed": 2, "crc32": sums}).encode())
