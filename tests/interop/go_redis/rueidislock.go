package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Its locks have the keys PREFIX:0:NAME, PREFIX:1:NAME and so on: the first alone where the majority
// is 1. A prefix is of a locker, so each lock has one.
type rueidislocks struct{ server rueidis.ClientOption }

func newRueidislock(url string) library {
	server, err := rueidis.ParseURL(url)
	check(err)
	return rueidislocks{server}
}

func (locks rueidislocks) acquire(key string, wait, lease time.Duration) (func() error, error) {
	prefix, name, _ := strings.Cut(key, ":0:")
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: locks.server, KeyPrefix: prefix, KeyMajority: 1, KeyValidity: lease,
	})
	check(err)
	var cancel context.CancelFunc
	if wait == 0 {
		_, cancel, err = locker.TryWithContext(context.Background(), name)
	} else {
		// It bounds the hold as well as the wait, so it does not end once the lock is granted.
		until, late := context.WithCancel(context.Background())
		timer := time.AfterFunc(wait, late)
		_, cancel, err = locker.WithContext(until, name)
		timer.Stop()
	}
	if err != nil {
		locker.Close()
		return nil, err
	}
	release := func() error {
		cancel()
		locker.Close()
		return nil
	}
	return release, nil
}
