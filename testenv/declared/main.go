// declared judges what people hand to other programs by those programs' own parsers: the project by Docker Compose's,
// the Dockerfile by BuildKit's and its linter, alerts by Prometheus'. It prints what is wrong, and ends with 1 if
// something is.
package main

import (
	"fmt"
	"os"
)

func main() {
	checks := map[string]func(path string) ([]string, error){
		"compose":     compose,
		"dockerfile":  dockerfile,
		"expressions": expressions,
	}
	if len(os.Args) != 3 || checks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: declared compose|dockerfile|expressions FILE")
		os.Exit(2)
	}
	found, err := checks[os.Args[1]](os.Args[2])
	if err != nil {
		found = append(found, err.Error())
	}
	for _, one := range found {
		fmt.Println(one)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}
