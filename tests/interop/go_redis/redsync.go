package main

import (
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const retryEvery = 5 * time.Millisecond

type redsyncs struct{ *redsync.Redsync }

func newRedsync(url string) library {
	options, err := redis.ParseURL(url)
	check(err)
	return redsyncs{redsync.New(goredis.NewPool(redis.NewClient(options)))}
}

func (locks redsyncs) acquire(name string, wait, lease time.Duration) (func() error, error) {
	mutex := locks.NewMutex(name, redsync.WithExpiry(lease),
		redsync.WithTries(1+int(wait/retryEvery)), redsync.WithRetryDelay(retryEvery))
	release := func() error {
		_, err := mutex.Unlock()
		return err
	}
	return release, mutex.Lock()
}
