mod properties;
mod rules;
mod spanning;
mod world;
