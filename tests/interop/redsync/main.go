// Holds a Mutex of redsync on command, with the answers of the Rust worker.
//
// Its argument is the URL of a Redis. One command per line of standard input, one line of JSON per
// command:
//
//	acquire NAME WAIT_MS LEASE_MS  NAME is the Redis key, as lock:{order:42}; WAIT_MS 0: one try
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

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

const retryEvery = 5 * time.Millisecond

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
	options, err := redis.ParseURL(os.Args[1])
	check(err)
	locks := redsync.New(goredis.NewPool(redis.NewClient(options)))
	var held *redsync.Mutex
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			wait, lease := milliseconds(words[2]), milliseconds(words[3])
			tries := 1 + int(wait/retryEvery)
			held = locks.NewMutex(words[1], redsync.WithExpiry(lease),
				redsync.WithTries(tries), redsync.WithRetryDelay(retryEvery))
			reply("busy", held.Lock())
		case "release":
			_, err := held.Unlock()
			reply("not_held", err)
		case "exit":
			return
		}
	}
}
