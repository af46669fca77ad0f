"""The environment of NNCF, OpenVINO's quantizer, with only the packages that quantizing an ONNX model imports.

Packages are installed without their declared dependencies: ``nncf`` also declares ``openvino-telemetry``, but works
without it.
"""

from __future__ import annotations

NNCF = "nncf"
WHAT = "NNCF, OpenVINO's quantizer, as one more method of quantize and of tune --tolerance"
ORT = "1.32.0"
REQUIREMENTS = (
    "nncf==3.4.0", "onnx==1.23.2", f"onnxruntime=={ORT}", "numpy<2.5", "protobuf==7.36.2", "ml_dtypes==0.6.0",
    "typing_extensions==4.16.0", "flatbuffers==25.12.19", "networkx==3.6.1", "packaging", "psutil==7.2.2",
    "rich==15.0.0", "markdown-it-py==4.3.0", "mdurl==0.1.2", "pygments==2.21.0", "safetensors==0.8.0",
    "scipy==1.17.1", "tabulate==0.10.0",
)  # fmt: skip
ABOUT_BYTES = 390_000_000
