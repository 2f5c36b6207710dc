package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// What the goroutines of one process did within the span.
type figures struct {
	Grants    []int   `json:"grants"`
	P50Micros float64 `json:"p50_us"`
}

// Takes and releases one key from so many goroutines, one session and one Mutex each, as two of one
// session have one place in the line. Says "ready", waits for "START END" in Unix nanoseconds, and
// answers with the figures of the cycles that ended between them.
func bench(client *clientv3.Client, session *concurrency.Session, prefix string, more []string) {
	ctx := context.Background()
	tasks, err := strconv.Atoi(more[0])
	check(err)
	mutexes := []*concurrency.Mutex{concurrency.NewMutex(session, prefix)}
	for len(mutexes) < tasks {
		own, err := concurrency.NewSession(client, concurrency.WithTTL(10))
		check(err)
		mutexes = append(mutexes, concurrency.NewMutex(own, prefix))
	}
	fmt.Println("ready")
	input := <-lines
	from, until, _ := strings.Cut(strings.TrimSpace(input), " ")
	start, err := strconv.ParseInt(from, 10, 64)
	check(err)
	end, err := strconv.ParseInt(until, 10, 64)
	check(err)
	grants, cycles := make([]int, tasks), make([][]float64, tasks)
	ctx, stop := context.WithDeadline(ctx, time.Unix(0, end))
	defer stop()
	var done sync.WaitGroup
	for task, mutex := range mutexes {
		done.Go(func() {
			for time.Now().UnixNano() < end {
				asked := time.Now()
				if mutex.Lock(ctx) != nil {
					return
				}
				granted := time.Now().UnixNano()
				if mutex.Unlock(context.Background()) != nil {
					return
				}
				if granted >= start && granted < end {
					grants[task]++
					cycles[task] = append(cycles[task], float64(time.Since(asked).Nanoseconds())/1e3)
				}
			}
		})
	}
	done.Wait()
	all := slices.Concat(cycles...)
	slices.Sort(all)
	found := figures{Grants: grants}
	if len(all) > 0 {
		found.P50Micros = all[len(all)/2]
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// What it is told, line by line.
var lines = func() chan string {
	lines := make(chan string)
	go func() {
		input := bufio.NewReader(os.Stdin)
		for {
			line, err := input.ReadString('\n')
			if err != nil {
				close(lines)
				return
			}
			lines <- line
		}
	}()
	return lines
}()
