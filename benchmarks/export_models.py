"""Makes the models that no package carries: ResNet-50, MobileNetV3-Large and ViT-Small, exported by torch. Run by hand.

    python benchmarks/export_models.py

Some minutes and about 2 GB, once: torch goes into an environment of its own below ``.cache``, the models (float32, one
image of 224x224, opset 20) to ``.cache/models/exported``. Weights are those that a fixed seed gives: they tell what
latency and rewriting do, and nothing about accuracy on photographs. After that ``tests/zoo.py`` knows them by name
(``exported-resnet50``, ``exported-mobilenetv3``, ``exported-vit-small``).
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from zoo import cache_folder

TORCH = "2.13.0"
ONNXSCRIPT = "0.7.0"
CODE = r'''
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


def conv(into, out, size, stride=1, groups=1, act=nn.ReLU):
    """Convolution, normalization, activation."""
    layers = [nn.Conv2d(into, out, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Bottleneck(nn.Module):
    """He and others, 2015, with the stride in the 3x3 convolution."""

    def __init__(self, into, mid, stride):
        super().__init__()
        self.body = nn.Sequential(conv(into, mid, 1), conv(mid, mid, 3, stride), conv(mid, 4 * mid, 1, act=None))
        same = stride == 1 and into == 4 * mid
        self.way = nn.Identity() if same else conv(into, 4 * mid, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.body(x) + self.way(x))


def resnet50():
    layers, into = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for i, (mid, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for j in range(count):
            layers.append(Bottleneck(into, mid, 2 if j == 0 and i else 1))
            into = 4 * mid
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000))


class Squeeze(nn.Module):
    def __init__(self, width):
        super().__init__()
        less = max(8, (width // 4 + 4) // 8 * 8)
        self.down, self.up = nn.Conv2d(width, less, 1), nn.Conv2d(less, width, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, into, size, wide, out, squeeze, act, stride):
        super().__init__()
        layers = [conv(into, wide, 1, act=act)] if wide != into else []
        layers += [conv(wide, wide, size, stride, wide, act)] + ([Squeeze(wide)] if squeeze else [])
        self.body = nn.Sequential(*layers, conv(wide, out, 1, act=None))
        self.same = stride == 1 and into == out

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenetv3():
    """Table 1 of Howard and others, 2019."""
    R, H = nn.ReLU, nn.Hardswish
    rows = [
        (3, 16, 16, 0, R, 1), (3, 64, 24, 0, R, 2), (3, 72, 24, 0, R, 1), (5, 72, 40, 1, R, 2), (5, 120, 40, 1, R, 1),
        (5, 120, 40, 1, R, 1), (3, 240, 80, 0, H, 2), (3, 200, 80, 0, H, 1), (3, 184, 80, 0, H, 1),
        (3, 184, 80, 0, H, 1), (3, 480, 112, 1, H, 1), (3, 672, 112, 1, H, 1), (5, 672, 160, 1, H, 2),
        (5, 960, 160, 1, H, 1), (5, 960, 160, 1, H, 1),
    ]
    layers, into = [conv(3, 16, 3, 2, act=H)], 16
    for size, wide, out, squeeze, act, stride in rows:
        layers.append(Inverted(into, size, wide, out, squeeze, act, stride))
        into = out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), H(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, conv(160, 960, 1, act=H), *head)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(q, k, v)
        return self.out(found.transpose(1, 2).reshape(n, length, width))


class Encoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.one, self.two, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.one(x))
        return x + self.mlp(self.two(x))


class Vit(nn.Module):
    def __init__(self, width=384, depth=12, heads=6, patch=16, image=224):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Encoder(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


folder = Path(sys.argv[1])
for name, make in (("resnet50", resnet50), ("mobilenetv3", mobilenetv3), ("vit-small", Vit)):
    torch.manual_seed(7)
    model = make()
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        # Running figures of the normalizations that suit these weights, so that values neither vanish nor explode.
        model.train()
        for _ in range(3):
            model(torch.randn(8, 3, 224, 224))
    model.eval()
    names = {"input_names": ["image"], "output_names": ["logits"]}
    names |= {"dynamo": True, "opset_version": 20, "external_data": False}
    torch.onnx.export(model, (image,), folder / f"{name}.onnx", **names)
    print(name, "exported", flush=True)
'''


def main() -> None:
    """Makes the environment and the models that are not there yet."""
    environment = cache_folder().parent / f"torch-{TORCH}"
    python = environment / "bin" / "python"
    if not (environment / "ready").is_file():
        print(f"installing torch {TORCH} into {environment}: some minutes", flush=True)
        venv.create(environment, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet"]
        # The build without CUDA is a tenth of the size; not every index has it.
        if subprocess.run([*pip, f"torch=={TORCH}+cpu"], check=False, capture_output=True).returncode:
            subprocess.run([*pip, f"torch=={TORCH}"], check=True)
        subprocess.run([*pip, "numpy", "onnx", f"onnxscript=={ONNXSCRIPT}"], check=True)
        (environment / "ready").touch()
    folder = cache_folder() / "exported"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, "-c", CODE, folder], check=True)


if __name__ == "__main__":
    main()
