package interop.curator;

/** What a command does. */
@FunctionalInterface
interface Work {
    /** Does it, and returns the fields that it adds to the answer. */
    Json run() throws Exception;

    /** Does it, and returns the whole answer to the command {@code id}. */
    default Json answered(long id) {
        try {
            var fields = run();
            return fields.with("id", id).with("ok", true).with("t_ns", System.nanoTime());
        } catch (Exception error) {
            return new Json()
                    .with("id", id)
                    .with("ok", false)
                    .with("t_ns", System.nanoTime())
                    .with("error", error.getClass().getSimpleName())
                    .with("message", String.valueOf(error.getMessage()));
        }
    }
}
