// A client of go.etcd.io/etcd/client/v3/concurrency, driven by lines.
//
//	mutex ENDPOINTS PREFIX TTL        locks, says "held", unlocks when told to
//	try ENDPOINTS PREFIX TTL          the same without waiting; says "busy" else
//	rlock, wlock ENDPOINTS PREFIX TTL the same with the RWMutex of the recipes
//	elect ENDPOINTS PREFIX TTL VALUE  campaigns, says "leads", resigns when told to
//	bench ENDPOINTS PREFIX TTL TASKS  see bench.go
//	observe ENDPOINTS PREFIX TTL      says "leader VALUE" of each leader
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipes "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func check(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	what, prefix := os.Args[1], os.Args[3]
	ttl, err := strconv.Atoi(os.Args[4])
	check(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[2], ",")})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	switch what {
	case "mutex", "try":
		mutex := concurrency.NewMutex(session, prefix)
		if what == "mutex" {
			check(mutex.Lock(ctx))
		} else if err := mutex.TryLock(ctx); errors.Is(err, concurrency.ErrLocked) {
			fmt.Println("busy")
			break
		} else {
			check(err)
		}
		fmt.Println("held")
		select {
		case <-lines:
			check(mutex.Unlock(ctx))
			fmt.Println("free")
		case <-session.Done():
			fmt.Println("lost")
		}
	case "rlock", "wlock":
		mutex := recipes.NewRWMutex(session, prefix)
		lock, unlock := mutex.Lock, mutex.Unlock
		if what == "rlock" {
			lock, unlock = mutex.RLock, mutex.RUnlock
		}
		check(lock())
		fmt.Println("held")
		<-lines
		check(unlock())
		fmt.Println("free")
	case "bench":
		bench(client, session, prefix, os.Args[5:])
	case "elect":
		election := concurrency.NewElection(session, prefix)
		check(election.Campaign(ctx, os.Args[5]))
		fmt.Println("leads")
		<-lines
		check(election.Resign(ctx))
		fmt.Println("resigned")
	case "observe":
		election := concurrency.NewElection(session, prefix)
		for found := range election.Observe(ctx) {
			fmt.Printf("leader %s\n", found.Kvs[0].Value)
		}
	}
	check(session.Close())
}
