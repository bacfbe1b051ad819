use std::collections::BTreeSet;

use portcullis_xds::Membership;

use super::sums::ReportedShadow;
use super::{Edition, GatewayShadows, NodeProcess, ReportedShadows};

impl ReportedShadows {
    /// Begins the sums of objects that passed over anew, with the counts of gateways that may report about them.
    pub(super) fn forget_foreign(&mut self, names: &BTreeSet<&str>, may_report: impl Fn(&Membership, &str) -> bool) {
        self.is_changed = true;
        let mut reported: Vec<(NodeProcess, Edition, bool)> = Vec::new();
        for (process, gateway) in &self.gateways {
            for edition in gateway.editions_of(names) {
                reported.push((process.clone(), edition.clone(), may_report(&gateway.membership, &edition.0)));
            }
        }
        let mut kept: Vec<(NodeProcess, Edition, ReportedShadow)> = Vec::new();
        for (process, edition, is_kept) in reported {
            let shadow = self.forget_edition(&process, &edition).filter(|_| is_kept);
            kept.extend(shadow.map(|shadow| (process, edition, shadow)));
        }
        names.iter().for_each(|name| self.forget_sums(name));
        for (process, edition, shadow) in kept {
            if self.has_room(&process, &edition, &shadow) {
                self.add(&process, edition, shadow);
            } else if self.is_expected(&edition) {
                self.left_out.insert(edition, &process);
            }
        }
    }

    /// Forgets the sums of all editions of an object's shadow.
    fn forget_sums(&mut self, name: &str) {
        let from_name = self.sums.range((name.to_owned(), String::new())..).map(|(edition, _)| edition);
        let gone: Vec<Edition> = from_name.take_while(|edition| edition.0 == name).cloned().collect();
        for edition in gone {
            let Some(sums) = self.sums.remove(&edition) else { continue };
            self.count_bytes(sums.owner(), &edition, sums.bytes(), 0);
        }
    }
}

impl GatewayShadows {
    /// The editions of these objects' shadows. The cost is that of the fewer: the names, or the shadows that are here.
    fn editions_of(&self, names: &BTreeSet<&str>) -> Vec<&Edition> {
        if names.len() < self.shadows.len() {
            return names.iter().flat_map(|name| self.editions(name)).collect();
        }
        self.shadows.keys().filter(|edition| names.contains(edition.0.as_str())).collect()
    }
}
