mod properties;
mod recorded;
mod rules;
mod spanning;
mod starts;
mod world;
