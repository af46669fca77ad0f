"""PyTorch models of the usual kinds, small, with weights of a seed; each function returns (module, inputs)."""

from __future__ import annotations

import torch
from torch import nn


def _conv(into, out, size, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(into, out, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(_conv(width, width, 3), _conv(width, width, 3, act=None))

    def forward(self, x):
        return nn.functional.relu(self.body(x) + x)


class Inverted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = _conv(width, 4 * width, 1, act=nn.Hardswish)
        self.deep = _conv(4 * width, 4 * width, 3, groups=4 * width, act=nn.Hardswish)
        self.gate = nn.Conv2d(4 * width, 4 * width, 1)
        self.down = _conv(4 * width, width, 1, act=None)

    def forward(self, x):
        y = self.deep(self.up(x))
        return x + self.down(
            y * nn.functional.hardsigmoid(self.gate(nn.functional.adaptive_avg_pool2d(y, 1)))
        )


def _head(width, *body):
    return nn.Sequential(
        _conv(3, width, 3, 2), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    )


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        n, length, width = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(n, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Encoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.one, self.two, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        x = x + self.attention(self.one(x), mask)
        return x + self.mlp(self.two(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, 8)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 48)), nn.Parameter(torch.randn(1, 17, 48))
        self.blocks, self.head = nn.Sequential(Encoder(48, 4), Encoder(48, 4)), nn.Linear(48, 10)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(500, 48), nn.Embedding(64, 48)
        self.blocks = nn.ModuleList([Encoder(48, 4), Encoder(48, 4)])
        self.norm = nn.LayerNorm(48)

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        mask = attention_mask[:, None, None, :] > 0
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 5)

    def forward(self, frames):
        return self.out(self.lstm(frames)[0])


def _settled(module, inputs):
    """With running figures of the normalizations that suit these weights."""
    module.train()
    with torch.no_grad():
        module(*inputs)
    return module.eval(), inputs


def resnet():
    torch.manual_seed(0)
    return _settled(_head(16, Residual(16), Residual(16)), (torch.randn(4, 3, 32, 32),))


def mobilenet():
    torch.manual_seed(0)
    return _settled(_head(16, Inverted(16), Inverted(16)), (torch.randn(4, 3, 32, 32),))


def vit():
    torch.manual_seed(0)
    return Vit(), (torch.randn(2, 3, 32, 32),)


def bert():
    torch.manual_seed(0)
    return Bert(), (torch.randint(0, 500, (2, 12)), torch.ones(2, 12, dtype=torch.int64))


def lstm():
    torch.manual_seed(0)
    return Lstm(), (torch.randn(2, 9, 16),)


def wide():
    """Three linear layers of 0.7 GB each: no single file of protobuf holds them."""
    width = 13500
    torch.manual_seed(0)
    layers = [nn.Linear(width, width) for _ in range(3)]
    return nn.Sequential(*layers), (torch.randn(2, width),)


class ByValue(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class BySize(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] > 12 else x


def by_value():
    return ByValue(), (torch.rand(2, 8),)


def by_size():
    return BySize(), (torch.rand(2, 8),)


class Left(nn.Module):
    """One function of PyTorch that exporters write in parts at older opsets."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def tanh_gelu():
    return Left(lambda x: nn.functional.gelu(x, approximate="tanh")), (torch.randn(2, 9, 16),)


def plain_norm():
    return Left(lambda x: nn.functional.layer_norm(x, (16,))), (torch.randn(2, 9, 16),)


def attention():
    return Left(lambda x: nn.functional.scaled_dot_product_attention(x, x, x)), (torch.randn(2, 4, 9, 16),)


def swish_by_hand():
    return Left(lambda x: x * nn.functional.relu6(x + 3) / 6), (torch.randn(2, 9, 16),)


def swish():
    return Left(nn.functional.hardswish), (torch.randn(2, 9, 16),)


def write_pt2(path):
    """The ResNet as an exported program with an open batch."""
    module, inputs = resnet()
    program = torch.export.export(module, inputs, dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, path)
