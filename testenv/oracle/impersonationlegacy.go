//go:build legacy

package main

import "k8s.io/apiserver/pkg/endpoints/filters"

// As kube-apiserver is built before 1.35, which has the legacy checks alone.
const knowsConstrained = false

var withImpersonation = filters.WithImpersonation
