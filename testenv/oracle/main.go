// Command oracle answers what kube-apiserver's own packages make of a request: JSON Lines in, JSON Lines out, one answer
// to each question, in order. Every string holds one byte per character (Latin-1), so that no byte is lost on the way.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"

	"k8s.io/klog/v2"
)

// question is one line of the input; Ask says which of the other fields count.
type question struct {
	Ask string `json:"ask"`

	Method text `json:"method"`
	Target text `json:"target"`

	Headers [][2]text `json:"headers"`

	// Certificates are base64 of DER, the leaf first; Roots those of the client CA; Now is in seconds since the epoch.
	Certificates [][]byte `json:"certificates"`
	Roots        [][]byte `json:"roots"`
	Now          int64    `json:"now"`

	User *userInfo `json:"user"`

	// Seed is of the grants of constrained impersonation; without it there are none.
	Seed string `json:"seed"`
}

var answers = map[string]func(*question) any{
	"requestInfo":   requestInfo,
	"credential":    credential,
	"certificate":   certificate,
	"impersonation": impersonate,
	"identity":      identity,
}

func main() {
	silenceLogs()
	chains := flag.Int("chains", -1, "print certificate chains instead: all that have a name, and so many pairs of them")
	tokens := flag.Int("tokens", -1, "print so many forged tokens instead, behind their issuers")
	seed := flag.Int64("seed", 1, "of the pairs, and of the tokens")
	flag.Parse()
	if *chains >= 0 {
		printChains(*seed, *chains)
		return
	}
	if *tokens >= 0 {
		printTokens(*seed, *tokens)
		return
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var asked question
		if err := decoder.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			log.Fatalf("oracle: a question is not readable: %v", err)
		}
		answer, ok := answers[asked.Ask]
		if !ok {
			log.Fatalf("oracle: unknown question %q", asked.Ask)
		}
		if err := encoder.Encode(answer(&asked)); err != nil {
			log.Fatalf("oracle: %v", err)
		}
	}
}

// silenceLogs drops what the packages log about requests that they cannot read.
func silenceLogs() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			log.Fatalf("oracle: %v", err)
		}
	}
	klog.SetOutput(io.Discard)
}
