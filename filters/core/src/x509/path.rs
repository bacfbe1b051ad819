//! Path building before anything that costs: names and key identifiers select the certificates between the leaf and the trusted
//! ones, then signatures are checked from the trusted ones downwards. One check finds a chain that none of them signed.

use super::PathError;
use super::bounds::Cost;
use super::link::{IssuerNames, Link};

/// Intermediates between the leaf and its CA.
pub const MAX_INTERMEDIATES: usize = 4;
/// Signatures that are checked to find a path, good ones included: twice as many as the longest path needs, for chains in
/// which several certificates have one name and no key identifiers.
pub const MAX_SIGNATURES: u32 = 10;

/// A path whose signatures are good.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Which of the roots it begins at.
    pub(super) root: usize,
    /// Which of the links it goes through, the leaf's issuer first.
    pub(super) intermediates: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Issuer {
    Root(usize),
    Link(usize),
}

/// Finds a path from the leaf, which is the first link, to one of the roots.
///
/// # Errors
/// [`PathError::Issuer`] where names lead to no root, [`PathError::Signature`] where signatures do not.
pub(super) fn find(links: &[Link<'_>], roots: &[IssuerNames<'_>], cost: &mut Cost) -> Result<Path, PathError> {
    let mut search = Search { links, roots, cost, issuers: vec![None; links.len()] };
    let children = search.children();
    let above = above_leaf(&children);
    let mut issued = search.below_roots(&above)?;
    let by = |issuer: usize| children.get(issuer).map_or(&[][..], Vec::as_slice);
    for _ in 0..MAX_INTERMEDIATES {
        let mut next = Vec::new();
        for issuer in std::mem::take(&mut issued) {
            for child in by(issuer).iter().filter(|child| above.contains(child)) {
                if search.issuer(*child).is_none() && search.is_signed(*child, Issuer::Link(issuer))? {
                    next.push(*child);
                }
            }
        }
        issued = next;
    }
    search.path().ok_or(PathError::Signature)
}

/// The leaf, and what it may descend from.
fn above_leaf(children: &[Vec<usize>]) -> Vec<usize> {
    let mut above = vec![0];
    for _ in 0..MAX_INTERMEDIATES {
        for (issuer, children) in children.iter().enumerate() {
            if !above.contains(&issuer) && children.iter().any(|child| above.contains(child)) {
                above.push(issuer);
            }
        }
    }
    above
}

struct Search<'a, 'c> {
    links: &'a [Link<'a>],
    roots: &'a [IssuerNames<'a>],
    cost: &'c mut Cost,
    /// The issuer of each link, once a signature has shown it.
    issuers: Vec<Option<Issuer>>,
}

impl Search<'_, '_> {
    /// By issuer, the certificates that it may have issued. The leaf issued none, and a root that was sent along is known
    /// already.
    fn children(&mut self) -> Vec<Vec<usize>> {
        let mut all = Vec::with_capacity(self.links.len());
        for (at, link) in self.links.iter().enumerate() {
            let names = link.names();
            let mut is_root = |root: &IssuerNames<'_>| {
                self.cost.equal(root.subject, names.subject) && self.cost.equal(root.key, names.key)
            };
            let is_issuer = at > 0 && !self.roots.iter().any(&mut is_root);
            let mut children = Vec::new();
            for (child, link) in self.links.iter().enumerate().filter(|(child, _)| is_issuer && *child != at) {
                if link.names_issuer(&names, self.cost) {
                    children.push(child);
                }
            }
            all.push(children);
        }
        all
    }

    /// The certificates that the roots issued. One certificate that they should have signed and did not is enough to end the
    /// search, unless they signed another: if two of them have one name, and the certificate has no key identifier, each is
    /// tried.
    fn below_roots(&mut self, above: &[usize]) -> Result<Vec<usize>, PathError> {
        let (links, roots) = (self.links, self.roots);
        let mut issued = Vec::new();
        // The leaf last: a new key of a CA may be signed by the old one under the same name.
        for child in above.iter().rev() {
            let Some(link) = links.get(*child) else { continue };
            let mut asked: Vec<&[u8]> = Vec::new();
            for (at, root) in roots.iter().enumerate() {
                if self.issuer(*child).is_some() || !link.names_issuer(root, self.cost) || asked.contains(&root.key) {
                    continue;
                }
                asked.push(root.key);
                self.is_signed(*child, Issuer::Root(at))?;
            }
            match self.issuer(*child) {
                Some(_) => issued.push(*child),
                None if !asked.is_empty() && issued.is_empty() => return Err(PathError::Signature),
                None => {}
            }
        }
        if issued.is_empty() { Err(PathError::Issuer) } else { Ok(issued) }
    }

    fn issuer(&self, link: usize) -> Option<Issuer> {
        self.issuers.get(link).copied().flatten()
    }

    /// Checks a signature, and remembers whose it is.
    fn is_signed(&mut self, child: usize, issuer: Issuer) -> Result<bool, PathError> {
        if self.cost.signatures >= MAX_SIGNATURES {
            return Err(PathError::Signature);
        }
        let key = match issuer {
            Issuer::Root(root) => self.roots.get(root).map(|root| root.key),
            Issuer::Link(link) => self.links.get(link).map(|link| link.names().key),
        };
        let (Some(key), Some(link), Some(place)) = (key, self.links.get(child), self.issuers.get_mut(child)) else {
            return Ok(false);
        };
        self.cost.signatures = self.cost.signatures.saturating_add(1);
        let is_signed = link.is_signed_by(key);
        if is_signed {
            *place = Some(issuer);
        }
        Ok(is_signed)
    }

    fn path(&self) -> Option<Path> {
        let mut intermediates = Vec::new();
        let mut at = 0;
        loop {
            match self.issuer(at)? {
                Issuer::Root(root) => return Some(Path { root, intermediates }),
                // Each was issued by one that was there before it, so that this ends.
                Issuer::Link(link) => intermediates.push(link),
            }
            at = *intermediates.last()?;
        }
    }
}
