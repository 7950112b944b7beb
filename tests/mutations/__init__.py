"""Small defects put into the product, one at a time: which of them do the tests notice?"""
