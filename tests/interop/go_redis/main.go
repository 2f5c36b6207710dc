// Holds a lock of a library for Go on command, with the answers of the Rust worker.
//
// Its arguments are the library (redsync or rueidislock) and the URL of a Redis. One command per line
// of standard input, one line of JSON per command:
//
//	acquire NAME WAIT_MS LEASE_MS  NAME is the Redis key, as lock:{order:0:42}; WAIT_MS 0: one try
//	release
//	exit
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A library at one server. Taking a lock gives what gives it up.
type library interface {
	acquire(name string, wait, lease time.Duration) (release func() error, err error)
}

type answer struct {
	Ok      bool   `json:"ok"`
	TNs     int64  `json:"t_ns"`
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

func reply(code string, err error) {
	var now unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	said := answer{Ok: err == nil, TNs: now.Nano()}
	if err != nil {
		said.Error, said.Message = code, err.Error()
	}
	line, err := json.Marshal(said)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func milliseconds(text string) time.Duration {
	count, err := strconv.Atoi(text)
	check(err)
	return time.Duration(count) * time.Millisecond
}

func main() {
	libraries := map[string]func(url string) library{
		"redsync": newRedsync, "rueidislock": newRueidislock,
	}
	locks := libraries[os.Args[1]](os.Args[2])
	var release func() error
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			var err error
			release, err = locks.acquire(words[1], milliseconds(words[2]), milliseconds(words[3]))
			reply("busy", err)
		case "release":
			reply("not_held", release())
		case "exit":
			return
		}
	}
}
