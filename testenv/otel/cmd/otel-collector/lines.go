package main

import (
	"context"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// linesConfig is the configuration of the exporter "lines".
type linesConfig struct {
	// Path is the file to which each request of spans is appended, as a line of OTLP's JSON.
	Path string `mapstructure:"path"`
}

// lines writes spans to a file.
type lines struct {
	component.StartFunc
	component.ShutdownFunc
	path string
	mu   sync.Mutex
}

func newLinesFactory() exporter.Factory {
	create := func(_ context.Context, _ exporter.Settings, config component.Config) (exporter.Traces, error) {
		return &lines{path: config.(*linesConfig).Path}, nil
	}
	defaults := func() component.Config { return &linesConfig{} }
	stability := exporter.WithTraces(create, component.StabilityLevelDevelopment)
	return exporter.NewFactory(component.MustNewType("lines"), defaults, stability)
}

func (l *lines) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

func (l *lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	marshaler := ptrace.JSONMarshaler{}
	line, err := marshaler.MarshalTraces(traces)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}
