// Command clients drives one library of Kubernetes' through a kubeconfig and prints a line for each thing that it did:
// clients LIBRARY KUBECONFIG POD. Objects have the names of the pod, so that several runs do not meet.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "default"
	// Longer than any step takes: a step that hangs is an error.
	deadline = 60 * time.Second
)

// run is one library: what it does with a configuration, beside a pod that runs.
type run func(ctx context.Context, config *rest.Config, pod string) error

var libraries = map[string]run{
	"argo-cd":            argoCD,
	"client-go":          clientGo,
	"controller-runtime": controllerRuntime,
	"flux":               flux,
}

func did(what string, facts ...any) {
	fmt.Println(append([]any{what}, facts...)...)
}

func main() {
	if err := execute(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func execute(args []string) error {
	if len(args) != 3 || libraries[args[0]] == nil {
		return fmt.Errorf("usage: clients argo-cd|client-go|controller-runtime|flux KUBECONFIG POD")
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return libraries[args[0]](ctx, config, args[2])
}
