// Holds a lock of rueidislock on command, with the answers of the Rust worker.
//
// Its argument is the URL of a Redis. One command per line of standard input, one line of JSON per
// command:
//
//	acquire NAME WAIT_MS LEASE_MS  NAME is the Redis key, as lock:{order:0:42}; WAIT_MS 0: one try
//	release
//	exit
//
// A lock of rueidislock has the keys PREFIX:0:NAME, PREFIX:1:NAME and so on: the first alone where the
// majority is 1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

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

// A lock that is held, and the locker that it is of: the prefix of a name is the locker's.
type held struct {
	locker rueidislock.Locker
	cancel context.CancelFunc
}

func acquire(server rueidis.ClientOption, key string, wait, lease time.Duration) (*held, error) {
	prefix, name, _ := strings.Cut(key, ":0:")
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: server, KeyPrefix: prefix, KeyMajority: 1, KeyValidity: lease,
	})
	check(err)
	var cancel context.CancelFunc
	if wait == 0 {
		_, cancel, err = locker.TryWithContext(context.Background(), name)
	} else {
		// What it is given bounds the hold as well, so it is not ended where the lock was granted.
		until, late := context.WithCancel(context.Background())
		timer := time.AfterFunc(wait, late)
		_, cancel, err = locker.WithContext(until, name)
		timer.Stop()
	}
	if err != nil {
		locker.Close()
		return nil, err
	}
	return &held{locker, cancel}, nil
}

func main() {
	server, err := rueidis.ParseURL(os.Args[1])
	check(err)
	var now *held
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			now, err = acquire(server, words[1], milliseconds(words[2]), milliseconds(words[3]))
			reply("busy", err)
		case "release":
			now.cancel()
			now.locker.Close()
			reply("not_held", nil)
		case "exit":
			return
		}
	}
}
