package interop.curator;

import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** An output of whole lines, which threads do not tear apart. */
final class Lines {
    private final PrintStream out;

    Lines(OutputStream out) {
        this.out = new PrintStream(out, false, StandardCharsets.UTF_8);
    }

    synchronized void print(Json line) {
        // One write for text and newline: a killed program leaves no half line behind.
        out.print(line + "\n");
        out.flush();
    }
}
