package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile parses every instruction, with BuildKit's lint rules.
func dockerfile(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, warning := range tree.Warnings {
		found = append(found, warning.Short)
	}
	rules := linter.New(&linter.Config{
		Warn: func(name, _, _, message string, at []parser.Range) {
			found = append(found, fmt.Sprintf("line %d: %s: %s", at[0].Start.Line, name, message))
		},
	})
	_, _, err = instructions.Parse(tree.AST, rules)
	return found, err
}
