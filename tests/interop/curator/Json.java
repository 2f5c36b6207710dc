package interop.curator;

import java.util.Collection;
import java.util.StringJoiner;
import java.util.stream.Collectors;

/** A JSON object in the making: texts, numbers, truth values, objects and lists of them. */
final class Json {
    private final StringJoiner fields = new StringJoiner(",", "{", "}");

    /** Adds a field; one without a value is left out. */
    Json with(String name, Object value) {
        if (value != null) {
            fields.add(quoted(name) + ":" + rendered(value));
        }
        return this;
    }

    @Override
    public String toString() {
        return fields.toString();
    }

    private static String rendered(Object value) {
        if (value instanceof Number || value instanceof Boolean || value instanceof Json) {
            return value.toString();
        }
        if (value instanceof Collection<?> items) {
            return items.stream().map(Json::rendered).collect(Collectors.joining(",", "[", "]"));
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        var quoted = new StringBuilder("\"");
        text.chars().forEach(unit -> {
            if (unit == '"' || unit == '\\') {
                quoted.append('\\').append((char) unit);
            } else if (unit < ' ') {
                quoted.append(String.format("\\u%04x", unit));
            } else {
                quoted.append((char) unit);
            }
        });
        return quoted.append('"').toString();
    }
}
