// helm: Helm, as its own command is made. Without the plugins of clouds for credentials.
package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	// The owner of fields, whatever the file is called.
	kube.ManagedFieldsManager = "helm"
	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
	if err := root.Execute(); err != nil {
		if failed, ok := errors.AsType[cmd.CommandError](err); ok {
			os.Exit(failed.ExitCode)
		}
		os.Exit(1)
	}
}
