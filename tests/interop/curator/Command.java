package interop.curator;

import java.util.List;

/** One line of input: {@code <id> <verb> <argument>…}, its words parted by single blanks. */
record Command(long id, String verb, List<String> arguments) {
    /** Reads a line; its sender is a program, so a broken line ends this one. */
    static Command parse(String line) {
        var words = List.of(line.split(" "));
        var id = Long.parseLong(words.get(0));
        return new Command(id, words.get(1), words.subList(2, words.size()));
    }

    String text(int index) {
        if (index >= arguments.size()) {
            throw new IllegalArgumentException(verb + " needs " + (index + 1) + " arguments");
        }
        return arguments.get(index);
    }

    String textOr(int index, String otherwise) {
        return index < arguments.size() ? arguments.get(index) : otherwise;
    }

    int number(int index) {
        return Integer.parseInt(text(index));
    }

    boolean has(int index, String word) {
        return index < arguments.size() && arguments.get(index).equals(word);
    }
}
