//go:build !legacy

package main

import "k8s.io/apiserver/pkg/endpoints/filters/impersonation"

// As kube-apiserver is built from 1.36 on.
const knowsConstrained = true

var withImpersonation = impersonation.WithConstrainedImpersonation
