package main

import (
	"context"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
)

// compose loads a project as `docker compose config` does: schema, merge keys, and what refers to what.
func compose(path string) ([]string, error) {
	options, err := cli.NewProjectOptions([]string{path},
		cli.WithWorkingDirectory(filepath.Dir(path)), cli.WithConsistency(true), cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	_, err = options.LoadProject(context.Background())
	return nil, err
}
