package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

// expressions parses a JSON list of PromQL, by name.
func expressions(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []string
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	var found []string
	for _, one := range all {
		if _, err := parser.ParseExpr(one); err != nil {
			found = append(found, fmt.Sprintf("%s: %v", one, err))
		}
	}
	return found, nil
}
