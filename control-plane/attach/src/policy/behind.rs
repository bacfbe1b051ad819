//! Objects behind doors with policies: each policy that fits, and why another one does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{
    CLUSTER_KIND, KubernetesUpstream, PolicyInEffect, Problem, UPSTREAM_KIND, UpstreamMaterial, behind_all_doors,
    behind_door, check_upstream, upstream_key,
};
use serde_json::Value;

use super::cluster::refusals;
use super::unfit::UnfitPolicy;

/// Which policies of doors do not fit.
#[derive(Default)]
struct FitMarks {
    fit: BTreeSet<UnfitPolicy>,
    unfit: BTreeMap<UnfitPolicy, String>,
}

impl FitMarks {
    /// Takes the outcome for a policy. A former version that does not fit says nothing about the newest, which comes first.
    fn take<T>(&mut self, cluster: &str, policy: &PolicyInEffect, fit: Result<T, String>) -> Option<T> {
        let (cluster, name) = (cluster.to_owned(), policy.policy.clone());
        let key = UnfitPolicy { cluster, kind: policy.kind, policy: name };
        match fit {
            Ok(newer) => {
                self.fit.insert(key);
                Some(newer)
            }
            Err(why) => {
                if !self.fit.contains(&key) {
                    self.unfit.insert(key, why);
                }
                None
            }
        }
    }
}

/// The document of an `UpstreamCluster` for requests that come by doors with these policies, the widest door's first, and the policies
/// that are left out, and why: those with which the cluster would be refused. As at the cluster itself no other namespace holds up its
/// owner's edits, and a policy of a Gateway closes none of the clusters behind it by one field.
pub fn behind_doors<'a>(
    document: &Arc<Value>,
    cluster: &str,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
) -> (Arc<Value>, BTreeMap<UnfitPolicy, String>) {
    fitting((CLUSTER_KIND, cluster), document, policies, refusals)
}

/// The rules of a `KubernetesUpstream` for requests that come by doors with these policies, the widest door's first, and the policies that
/// do not fit, and why: no request is judged without one of them, because a tenant would lift what it denies. `rules` are those of the
/// upstream itself.
pub fn upstream_behind_doors<'a>(
    raw: &KubernetesUpstream,
    material: &UpstreamMaterial,
    rules: &Arc<Value>,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
) -> (Arc<Value>, BTreeMap<UnfitPolicy, String>) {
    let key = upstream_key(raw.metadata.namespace.as_deref().unwrap_or_default(), &raw.metadata.name);
    let refusals = |rules: &Arc<Value>| check_upstream(raw, material, rules, true).outcome.err().unwrap_or_default();
    fitting((UPSTREAM_KIND, &key), rules, policies, refusals)
}

/// The document of an object, or its rules, with each policy with which it is good.
fn fitting<'a>(
    (kind, name): (&str, &str),
    document: &Arc<Value>,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
    refusals: impl Fn(&Arc<Value>) -> Vec<Problem>,
) -> (Arc<Value>, BTreeMap<UnfitPolicy, String>) {
    let policies: Vec<&PolicyInEffect> = policies.into_iter().collect();
    // Nearly always all of them fit, and each check takes time by the size of the object with its policies.
    let all = behind_all_doors(document, policies.iter().copied()).ok();
    if let Some(all) = all.filter(|all| refusals(all).is_empty()) {
        return (all, BTreeMap::new());
    }
    // With an object that is refused anyway nothing can be compared.
    let is_refused = !refusals(document).is_empty();
    let (mut document, mut marks) = (Arc::clone(document), FitMarks::default());
    for policy in policies {
        let newer = behind_door(&document, policy).map_err(|error| error.to_string());
        let fit = newer.and_then(|newer| match refusals(&newer).first().filter(|_| !is_refused) {
            // Its author need not be able to read the object.
            Some(problem) => Err(format!("{kind} {name} would be refused with it: {}", problem.outline())),
            None => Ok(newer),
        });
        document = marks.take(name, policy, fit).unwrap_or(document);
    }
    (document, marks.unfit)
}
