use crate::holder::MemberHolder;
use crate::member::MemberName;
use crate::ownership::Ownership;
use crate::settle::Settlement;

/// A Gateway and an `UpstreamCluster` of different owners: no route leads from one to the other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{gateway} belongs to {of_gateway}, and {cluster} to {of_cluster}: a route leads to clusters of its Gateway's owner alone"
)]
pub struct SeparateOwners {
    /// The Gateway.
    pub gateway: MemberName,
    /// Its owner.
    pub of_gateway: MemberHolder,
    /// The cluster.
    pub cluster: MemberName,
    /// Its owner.
    pub of_cluster: MemberHolder,
}

impl Settlement {
    /// Why a Gateway may not lead to a cluster, if both are known and it may not. It may if its holder serves the cluster: also while
    /// this passes over, in either direction. It may, too, if both are to have the same owner: they do not arrive at once.
    pub fn separated(&self, gateway: &MemberName, cluster: &MemberName) -> Option<SeparateOwners> {
        let (of_gateway, of_cluster) = (self.owners.get(gateway)?, self.owners.get(cluster)?);
        (!reaches(of_gateway, of_cluster)).then(|| SeparateOwners {
            gateway: gateway.clone(),
            of_gateway: of_gateway.settled().clone(),
            cluster: cluster.clone(),
            of_cluster: of_cluster.settled().clone(),
        })
    }
}

fn reaches(gateway: &Ownership, cluster: &Ownership) -> bool {
    let serves = |holder: &MemberHolder| *holder != MemberHolder::Nobody && *holder == gateway.holder;
    let is_one = gateway.settled() == cluster.settled() && *cluster.settled() != MemberHolder::Nobody;
    std::iter::once(&cluster.holder).chain(&cluster.next).any(serves) || is_one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_leads_to_clusters_of_its_owner_alone() {
        let of = |name: &str| MemberHolder::Instance(name.to_owned());
        let at = |holder: MemberHolder| Ownership { holder, next: None };
        let passing = |holder: MemberHolder, next: MemberHolder| Ownership { holder, next: Some(next) };
        let (gateway, cluster) = (MemberName::gateway("n/g"), MemberName::cluster("c"));
        let (free, nobody) = (|| MemberHolder::Free, || MemberHolder::Nobody);
        for (of_gateway, of_cluster, is_permitted) in [
            (at(of("a")), at(of("a")), true),
            (at(of("a")), at(of("b")), false),
            (at(free()), at(free()), true),
            (at(free()), at(of("a")), false),
            (at(of("a")), at(free()), false),
            // While the cluster passes over both serve it.
            (at(of("a")), passing(of("a"), of("b")), true),
            (at(of("b")), passing(of("a"), of("b")), true),
            (at(of("c")), passing(of("a"), of("b")), false),
            // While the Gateway does it has the clusters of before, and those that come with it.
            (passing(of("a"), of("b")), at(of("a")), true),
            (passing(of("a"), of("b")), passing(of("a"), of("b")), true),
            (passing(of("a"), of("b")), passing(of("c"), of("b")), true),
            (passing(of("a"), of("b")), at(of("c")), false),
            (at(free()), at(nobody()), false),
            (at(nobody()), at(nobody()), false),
        ] {
            let owners = [(gateway.clone(), of_gateway.clone()), (cluster.clone(), of_cluster.clone())].into();
            let settled = Settlement { owners, ..Settlement::default() };
            let found = settled.separated(&gateway, &cluster);
            assert_eq!(found.is_none(), is_permitted, "{of_gateway:?} {of_cluster:?}");
        }
        let owners = [(gateway.clone(), at(of("a"))), (cluster.clone(), at(free()))].into();
        let told = Settlement { owners, ..Settlement::default() }.separated(&gateway, &cluster).unwrap().to_string();
        let expected = "Gateway n/g belongs to Instance a, and UpstreamCluster c to no Instance: a route leads to clusters of \
                        its Gateway's owner alone";
        assert_eq!(told, expected);
        assert_eq!(Settlement::default().separated(&gateway, &cluster), None, "nothing is known");
    }
}
