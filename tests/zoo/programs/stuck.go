// Go: `deadlock` takes two mutexes crosswise while a ticker runs; `idle` waits in accept; `busy` computes.
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

func main() {
	switch os.Args[1] {
	case "deadlock":
		var one, two sync.Mutex
		go func() {
			for range time.Tick(10 * time.Millisecond) {
			}
		}()
		go func() { two.Lock(); time.Sleep(300 * time.Millisecond); one.Lock() }()
		fmt.Println("READY")
		one.Lock()
		time.Sleep(300 * time.Millisecond)
		two.Lock()
	case "idle":
		listener, _ := net.Listen("tcp", "127.0.0.1:0")
		fmt.Println("READY")
		listener.Accept()
	default:
		fmt.Println("READY")
		for n := 0; ; n++ {
			if n < 0 {
				fmt.Println(n)
			}
		}
	}
}
