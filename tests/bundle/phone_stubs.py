"""Signatures of what the benches for phones call, as Java that runs: sessions give fixed outputs after some work."""

from __future__ import annotations

from pathlib import Path

_SOURCES = {
    "ai/onnxruntime/OrtException": "public class OrtException extends Exception {}",
    "ai/onnxruntime/OnnxJavaType": "public enum OnnxJavaType { FLOAT, DOUBLE, INT8, INT16, INT32, INT64, BOOL, STRING,"
    " UINT8, FLOAT16, BFLOAT16, UNKNOWN }",
    "ai/onnxruntime/OnnxValue": "public interface OnnxValue extends AutoCloseable { void close(); }",
    "ai/onnxruntime/OnnxTensorLike": "public abstract class OnnxTensorLike implements OnnxValue {"
    " public TensorInfo getInfo() { return info; } TensorInfo info; public void close() {} }",
    "ai/onnxruntime/TensorInfo": "public class TensorInfo { public final OnnxJavaType type; final long[] shape;"
    " TensorInfo(OnnxJavaType type, long[] shape) { this.type = type; this.shape = shape; }"
    " public long[] getShape() { return shape; } }",
    "ai/onnxruntime/OnnxTensor": """import java.nio.ByteBuffer;
public class OnnxTensor extends OnnxTensorLike {
  ByteBuffer data;
  public static OnnxTensor createTensor(OrtEnvironment e, ByteBuffer data, long[] shape, OnnxJavaType type)
      throws OrtException {
    OnnxTensor made = new OnnxTensor();
    made.data = data; made.info = new TensorInfo(type, shape);
    return made;
  }
  public ByteBuffer getByteBuffer() { return data.duplicate(); }
}""",
    "ai/onnxruntime/OrtEnvironment": """public class OrtEnvironment implements AutoCloseable {
  public static OrtEnvironment getEnvironment() { return new OrtEnvironment(); }
  public String getVersion() { return "1.31.0"; }
  public OrtSession createSession(String path, OrtSession.SessionOptions options) throws OrtException {
    if (options.provider.equals("qnn")) throw new OrtException();
    return new OrtSession();
  }
  public void close() {}
}""",
    "ai/onnxruntime/OrtSession": """import java.util.*;
public class OrtSession implements AutoCloseable {
  public static int open;
  OrtSession() { open++; }
  public Result run(Map<String, ? extends OnnxTensorLike> inputs) throws OrtException {
    java.nio.ByteBuffer data = java.nio.ByteBuffer.allocate(8).order(java.nio.ByteOrder.nativeOrder());
    data.putFloat(1.5f).putFloat(-2f).rewind();
    return new Result(OnnxTensor.createTensor(null, data, new long[] {2}, OnnxJavaType.FLOAT));
  }
  public void close() throws OrtException { open--; }
  public static class Result implements AutoCloseable, Iterable<Map.Entry<String, OnnxValue>> {
    private final Map<String, OnnxValue> values = new LinkedHashMap<>();
    Result(OnnxValue value) { values.put("y", value); }
    public Iterator<Map.Entry<String, OnnxValue>> iterator() { return values.entrySet().iterator(); }
    public void close() {}
  }
  public static class SessionOptions implements AutoCloseable {
    String provider = "cpu";
    public void addNnapi(EnumSet<ai.onnxruntime.providers.NNAPIFlags> flags) throws OrtException { provider = "nnapi"; }
    public void addXnnpack(Map<String, String> options) throws OrtException { provider = "xnnpack"; }
    public void addQnn(Map<String, String> options) throws OrtException { provider = "qnn"; }
    public void addConfigEntry(String key, String value) throws OrtException {}
    public void close() {}
  }
}""",
    "ai/onnxruntime/providers/NNAPIFlags": "public enum NNAPIFlags { USE_FP16, USE_NCHW, CPU_DISABLED, CPU_ONLY }",
    "android/content/pm/ApplicationInfo": "public class ApplicationInfo { public String nativeLibraryDir = "
    '"/data/app/lib/arm64"; }',
    "android/system/ErrnoException": "public class ErrnoException extends Exception {}",
    "android/system/Os": "public class Os { public static void setenv(String name, String value, boolean overwrite)"
    " throws ErrnoException {} }",
    "android/content/Context": """import java.io.File;
public class Context {
  public static final String POWER_SERVICE = "power";
  public static File files;
  public File getFilesDir() { return files; }
  public File getExternalFilesDir(String type) { return files; }
  public android.content.pm.ApplicationInfo getApplicationInfo() { return new android.content.pm.ApplicationInfo(); }
  public Object getSystemService(String name) { return new android.os.PowerManager(); }
  public android.content.res.AssetManager getAssets() { return new android.content.res.AssetManager(); }
}""",
    "android/content/res/AssetManager": """import java.io.*;
public class AssetManager {
  public static File assets;
  public InputStream open(String name) throws IOException { return new FileInputStream(new File(assets, name)); }
}""",
    "android/os/Build": """public class Build {
  public static final String MANUFACTURER = "Acme", MODEL = "Nine \\"\\u00fc\\"";
  public static class VERSION { public static final String RELEASE = "15"; public static final int SDK_INT = 35; }
}""",
    "android/os/PowerManager": "public class PowerManager { public int getCurrentThermalStatus() { return 1; } }",
    "android/os/Bundle": "public class Bundle { public String getString(String key) { return null; } }",
    "android/app/Instrumentation": """import android.content.Context;
public class Instrumentation {
  public Context getContext() { return new Context(); }
  public Context getTargetContext() { return new Context(); }
}""",
    "androidx/test/platform/app/InstrumentationRegistry": """public final class InstrumentationRegistry {
  public static android.app.Instrumentation getInstrumentation() { return new android.app.Instrumentation(); }
  public static android.os.Bundle getArguments() { return new android.os.Bundle(); }
}""",
    "androidx/test/ext/junit/runners/AndroidJUnit4": "public final class AndroidJUnit4"
    " extends org.junit.runner.Runner {}",
    "org/junit/runner/Runner": "public class Runner {}",
    "org/junit/runner/RunWith": "@java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)"
    " public @interface RunWith { Class<? extends Runner> value(); }",
    "org/junit/Test": "public @interface Test {}",
}

MAIN = """class Main {
  public static void main(String[] words) throws Exception {
    android.content.Context.files = new java.io.File(words[0]);
    android.content.res.AssetManager.assets = new java.io.File(words[1]);
    new ortune.bench.PhoneTest().bench();
    if (ai.onnxruntime.OrtSession.open != 0) throw new IllegalStateException("sessions were left open");
  }
}
"""

SWIFT = {
    "ORTValue": {
        "init(tensorData:elementType:shape:)", "tensorData()", "tensorTypeAndShapeInfo()",
    },
    "ORTTensorElementDataType": {"float", "int8", "uInt8", "int32", "uInt32", "int64", "uInt64", "string"},
    "ORTTensorTypeAndShapeInfo": {"elementType", "shape"},
}  # fmt: skip
"""What Swift has of values, beside the types of the table."""


def write(folder: Path) -> list[Path]:
    """The stubs as source files."""
    places = []
    for name, text in _SOURCES.items():
        place = folder / f"{name}.java"
        place.parent.mkdir(parents=True, exist_ok=True)
        package = name.rpartition("/")[0].replace("/", ".")
        place.write_text(f"package {package};\n{text}\n", encoding="utf-8")
        places.append(place)
    main = folder / "Main.java"
    main.write_text(MAIN)
    return [*places, main]
