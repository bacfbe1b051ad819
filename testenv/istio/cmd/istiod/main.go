// Command istiod is Istio's control plane as Istio publishes it.
package main

import (
	"fmt"
	"os"

	"istio.io/istio/pilot/cmd/pilot-discovery/app"
	"istio.io/istio/pkg/log"
)

func main() {
	log.EnableKlogWithCobra()
	if err := app.NewRootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
