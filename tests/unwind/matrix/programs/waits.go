// The main goroutine waits in read(2), another one in a read of its own.
package main

import (
	"fmt"
	"os"
	"syscall"
)

type Engine[T any] struct{ items []T }

func (engine *Engine[T]) Run(file int) int {
	var bytes [1]byte
	got, _ := syscall.Read(file, bytes[:])
	return got + len(engine.items)
}

//go:noinline
func outer(engine *Engine[int], file int) int { return engine.Run(file) + 1 }

func main() {
	var pipe [2]int
	syscall.Pipe(pipe[:])
	go func() { outer(&Engine[int]{}, pipe[0]) }()
	fmt.Printf("READY %d\n", os.Getpid())
	os.Exit(outer(&Engine[int]{items: []int{1}}, 0))
}
