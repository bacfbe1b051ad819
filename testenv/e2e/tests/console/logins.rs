//! Placeholder until the fixture with a real kube-apiserver is here.
