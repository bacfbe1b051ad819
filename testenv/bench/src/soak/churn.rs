//! Changes, one kind after the other.

use portcullis_e2e::Manifest;
use serde_json::{Value, json};

use crate::error::BenchError;
use crate::site::{Mode, Site};

/// Changes so far.
pub(crate) struct Churn {
    manifest: Manifest,
    steps: usize,
    pub(crate) edits: usize,
    pub(crate) restarts: usize,
    pub(crate) rotations: usize,
}

/// Of so many steps, one kills a server, the next but one brings it back, and one rotates all certificates.
const CYCLE: usize = 12;

impl Churn {
    /// Applies the first configuration.
    pub(crate) fn new(site: &Site) -> Result<Self, BenchError> {
        let manifest = site.manifest(Mode::Impersonate)?.policies(policies(0));
        site.gateway.apply(&manifest)?;
        Ok(Churn { manifest, steps: 0, edits: 0, restarts: 0, rotations: 0 })
    }

    /// The next change. It takes effect while requests come: nothing waits for it.
    pub(crate) fn step(&mut self, site: &mut Site) -> Result<(), BenchError> {
        self.steps += 1;
        let turn = self.steps / CYCLE % site.servers.len();
        match (self.steps % CYCLE, site.servers.get_mut(turn)) {
            (4, Some(server)) => server.kill(),
            (6, Some(server)) => {
                server.start_again()?;
                self.restarts += 1;
            }
            (10, _) => {
                self.manifest = site.manifest(Mode::Impersonate)?.policies(policies(self.steps));
                site.gateway.write(&self.manifest)?;
                self.rotations += 1;
            }
            _ => {
                self.manifest = self.manifest.clone().policies(policies(self.steps));
                site.gateway.write(&self.manifest)?;
                self.edits += 1;
            }
        }
        for server in site.servers.iter().filter(|_| !(4..6).contains(&(self.steps % CYCLE))) {
            server.forget()?;
        }
        Ok(())
    }
}

/// Policies that let through what clients ask for, but Secrets, and one that differs each time.
fn policies(edit: usize) -> Value {
    let resources = ["configmaps", "pods", "pods/exec"];
    let rule = json!({"verbs": ["*"], "apiGroups": [""], "resources": resources});
    let other = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": [format!("things{edit}")]});
    json!([{"rules": [other]}, {"rules": [rule]}])
}

#[cfg(test)]
mod tests {
    use super::policies;

    #[test]
    fn policies_differ_from_edit_to_edit() {
        assert_ne!(policies(1), policies(2));
    }
}
